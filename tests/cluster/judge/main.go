// Judges manifests as the API server with Istio's CRDs and webhook would: the same libraries, called in the same order,
// without a server. A line of standard input is a JSON object, a line of standard output is what became of it:
// {"refused": bool, "by": "crd" | "webhook", "reason": "..", "dropped": ["spec.x"], "warnings": [".."]}.
// The only argument is the file of the CRDs. `tests/cluster/build-control-plane judge` builds it in Istio's own module.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	istiolog "istio.io/istio/pkg/log"
	"istio.io/istio/pkg/config/schema/collections"
	"istio.io/istio/pkg/config/schema/resource"
	_ "istio.io/istio/pkg/config/validation/envoyfilter"
)

type kind struct {
	shape      *schema.Structural
	validator  validation.SchemaCreateValidator
	cel        *cel.Validator
	namespaced bool
}

type verdict struct {
	Refused  bool     `json:"refused"`
	By       string   `json:"by,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Dropped  []string `json:"dropped,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: judge CRDS.yaml <objects.jsonl"))
	}
	for _, scope := range istiolog.Scopes() {
		scope.SetOutputLevel(istiolog.NoneLevel)
	}
	kinds, err := load(os.Args[1])
	if err != nil {
		fail(err)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		said, err := json.Marshal(judge(kinds, in.Bytes()))
		if err != nil {
			fail(err)
		}
		out.Write(said)
		out.WriteByte('\n')
	}
	if err := in.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "judge:", err)
	os.Exit(2)
}

// load reads every version of every CRD, by "group/version kind".
func load(file string) (map[string]*kind, error) {
	data, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	kinds := map[string]*kind{}
	decoder := yaml.NewYAMLOrJSONDecoder(data, 512*1024)
	for {
		v1 := apiextensionsv1.CustomResourceDefinition{}
		if err := decoder.Decode(&v1); err != nil {
			if len(kinds) == 0 {
				return nil, err
			}
			return kinds, nil
		}
		if v1.Kind != "CustomResourceDefinition" {
			continue
		}
		for _, version := range v1.Spec.Versions {
			one, err := compile(&version, v1.Spec.Scope)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", v1.Name, version.Name, err)
			}
			kinds[v1.Spec.Group+"/"+version.Name+" "+v1.Spec.Names.Kind] = one
		}
	}
}

func compile(version *apiextensionsv1.CustomResourceDefinitionVersion, scope apiextensionsv1.ResourceScope) (*kind, error) {
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, internal, nil); err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	shape, err := schema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return &kind{
		shape:      shape,
		validator:  validator,
		cel:        cel.NewValidator(shape, true, celconfig.PerCallLimit),
		namespaced: scope == apiextensionsv1.NamespaceScoped,
	}, nil
}

func judge(kinds map[string]*kind, line []byte) verdict {
	object := map[string]any{}
	if err := utiljson.Unmarshal(line, &object); err != nil {
		return refused("crd", err)
	}
	name, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	one := kinds[version+" "+name]
	if one == nil {
		return refused("crd", fmt.Errorf("no kind %q in %q", name, version))
	}
	said := verdict{}
	if err := one.admit(object, &said); err != nil {
		said.Refused, said.By, said.Reason = true, "crd", err.Error()
		return said
	}
	warnings, err := webhook(object)
	said.Warnings = warnings
	if err != nil {
		said.Refused, said.By, said.Reason = true, "webhook", err.Error()
	}
	return said
}

func refused(by string, err error) verdict {
	return verdict{Refused: true, By: by, Reason: err.Error()}
}

// admit drops unknown fields, fills in defaults and validates, as a create at the API server does.
func (k *kind) admit(object map[string]any, said *verdict) error {
	meta, _, err := objectmeta.GetObjectMeta(object, false)
	if err != nil {
		return err
	}
	if meta == nil {
		meta = &metav1.ObjectMeta{}
	}
	if meta.Namespace == "" {
		meta.Namespace = "default"
	}
	if err := objectmeta.SetObjectMeta(object, meta); err != nil {
		return err
	}
	if err := objectmeta.Coerce(nil, object, k.shape, true, false); err != nil {
		return err
	}
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	said.Dropped = pruning.PruneWithOptions(object, k.shape, true, options)
	defaulting.Default(object, k.shape)
	errs := metavalidation.ValidateObjectMetaAccessor(meta, k.namespaced, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, object, k.validator)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.shape, object)...)
	errs = append(errs, objectmeta.Validate(nil, object, k.shape, true)...)
	if len(errs) == 0 && k.cel != nil {
		errs, _ = k.cel.Validate(context.Background(), nil, k.shape, object, nil, celconfig.RuntimeCELCostBudget)
	}
	if err := errs.ToAggregate(); err != nil {
		return err
	}
	return nil
}

// webhook does what istiod's does with what the API server sends it.
func webhook(object map[string]any) ([]string, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var of crd.IstioKind
	if err := json.Unmarshal(raw, &of); err != nil {
		return nil, err
	}
	gvk := of.GroupVersionKind()
	s, known := collections.All.FindByGroupKind(resource.FromKubernetesGVK(&gvk))
	if !known {
		return nil, nil
	}
	config, err := crd.ConvertObject(s, &of, "cluster.local")
	if err != nil {
		return nil, err
	}
	warning, err := s.ValidateConfig(*config)
	if warning != nil {
		return strings.Split(warning.Error(), "\n"), err
	}
	return nil, err
}
