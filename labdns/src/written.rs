//! Schemas of the types that a person writes in a short form of their own, for the `OpenAPI` document and the
//! scenario reference: the derived schema would show the Rust struct behind them.

use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::command::Target;
use crate::name::Name;
use crate::schema::pool::Pool;
use crate::schema::scalar::{Interval, Moment, Take, Ttl};

macro_rules! written {
    ($type:ident, $written_as:expr, $description:literal, $example:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                let object = ObjectBuilder::new().schema_type($written_as);
                object.description(Some($description)).examples([serde_json::json!($example)]).build().into()
            }
        }

        impl ToSchema for $type {}
    };
}

const TEXT: SchemaType = SchemaType::Type(Type::String);
const ANY: SchemaType = SchemaType::AnyValue;

written!(
    Name,
    TEXT,
    "A DNS name: letters, digits, `-` and `_`; `*` as its first label is a wildcard.",
    "api.example"
);
written!(Target, TEXT, "An address or a name.", "192.0.2.2");
written!(Interval, ANY, "A length of time: `200ms`, `60s`, `10m`, `1h 30m`, or a number of seconds.", "60s");
written!(
    Moment,
    ANY,
    "A time after the start, `60s`, or a span that it is drawn from once per run, by the seed: `20s..240s`.",
    "20s..240s"
);
written!(Take, ANY, "A number of addresses, or a range, `2..8`, that is drawn for each answer.", 8);
written!(
    Ttl,
    ANY,
    "Seconds, or a list of seconds that is dealt out to the pool's members in turn, `[0, 60]`.",
    60
);
written!(
    Pool,
    ANY,
    "A list of addresses (duplicates are kept), or consecutive ones: `{from: 10.0.0.1, count: 400}`.",
    ["192.0.2.1", "192.0.2.2"]
);
