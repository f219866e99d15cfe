//! HAProxy's agent-check: whoever connects is told one line and the connection is closed. Started by `serve` when a
//! port is given.

use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::drain::Event;
use crate::engine::Engine;

/// Answers for ever.
pub(crate) async fn serve(listener: TcpListener, engine: Rc<Engine>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            // Out of file descriptors: asking at once again would take a whole core.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        engine.apply(Event::AgentAsked);
        let word = engine.drain().agent_answer(&engine.rules);
        // One small write into an empty socket buffer; a peer that is gone already needs no answer.
        let _ = stream.write_all(word.as_bytes()).await;
    }
}
