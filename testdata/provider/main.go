// Command provider is a minimal Terraform provider for tests of plan and apply.
// Its name determines its type: as terraform-provider-widget_v1.0.0 it has the
// resource widget_thing and the data source widget_thing. It uses protocol 6
// and has no side effects.
//
// It is a separate module, so that Larder does not depend on its libraries.
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func main() {
	name := typeName(os.Args[0])
	err := tf6server.Serve("example.test/larder/"+name, func() tfprotov6.ProviderServer {
		return &server{thing: name + "_thing"}
	})
	if err != nil {
		log.Fatal(err)
	}
}

// typeName returns TYPE from a path that ends in terraform-provider-TYPE, with
// or without a version or an extension.
func typeName(path string) string {
	name := strings.TrimPrefix(filepath.Base(path), "terraform-provider-")
	if end := strings.IndexAny(name, "_."); end >= 0 {
		name = name[:end]
	}
	return name
}

// A server implements the methods that Terraform calls for plans with managed
// resources and data sources. The embedded interface is nil, so all other
// methods panic.
type server struct {
	tfprotov6.ProviderServer
	thing string
}

// thing is an object with a text, and an id derived from it.
var thing = tftypes.Object{AttributeTypes: map[string]tftypes.Type{
	"id":   tftypes.String,
	"text": tftypes.String,
}}

var thingSchema = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{
	Attributes: []*tfprotov6.SchemaAttribute{
		{Name: "id", Type: tftypes.String, Computed: true},
		{Name: "text", Type: tftypes.String, Optional: true},
	},
}}

func (s *server) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return &tfprotov6.GetMetadataResponse{
		Resources:   []tfprotov6.ResourceMetadata{{TypeName: s.thing}},
		DataSources: []tfprotov6.DataSourceMetadata{{TypeName: s.thing}},
	}, nil
}

func (s *server) GetProviderSchema(
	context.Context, *tfprotov6.GetProviderSchemaRequest,
) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{
		Provider:          &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}},
		ResourceSchemas:   map[string]*tfprotov6.Schema{s.thing: thingSchema},
		DataSourceSchemas: map[string]*tfprotov6.Schema{s.thing: thingSchema},
	}, nil
}

func (s *server) GetResourceIdentitySchemas(
	context.Context, *tfprotov6.GetResourceIdentitySchemasRequest,
) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (s *server) ValidateProviderConfig(
	_ context.Context, req *tfprotov6.ValidateProviderConfigRequest,
) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config}, nil
}

func (s *server) ConfigureProvider(
	context.Context, *tfprotov6.ConfigureProviderRequest,
) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (s *server) StopProvider(
	context.Context, *tfprotov6.StopProviderRequest,
) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (s *server) ValidateResourceConfig(
	context.Context, *tfprotov6.ValidateResourceConfigRequest,
) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (s *server) UpgradeResourceState(
	_ context.Context, req *tfprotov6.UpgradeResourceStateRequest,
) (*tfprotov6.UpgradeResourceStateResponse, error) {
	value, err := req.RawState.Unmarshal(thing)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov6.NewDynamicValue(thing, value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

func (s *server) ReadResource(
	_ context.Context, req *tfprotov6.ReadResourceRequest,
) (*tfprotov6.ReadResourceResponse, error) {
	return &tfprotov6.ReadResourceResponse{NewState: req.CurrentState}, nil
}

func (s *server) PlanResourceChange(
	_ context.Context, req *tfprotov6.PlanResourceChangeRequest,
) (*tfprotov6.PlanResourceChangeResponse, error) {
	planned, err := withID(req.ProposedNewState)
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: planned}, err
}

func (s *server) ApplyResourceChange(
	_ context.Context, req *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	state, err := withID(req.PlannedState)
	return &tfprotov6.ApplyResourceChangeResponse{NewState: state}, err
}

func (s *server) ValidateDataResourceConfig(
	context.Context, *tfprotov6.ValidateDataResourceConfigRequest,
) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

func (s *server) ReadDataSource(
	_ context.Context, req *tfprotov6.ReadDataSourceRequest,
) (*tfprotov6.ReadDataSourceResponse, error) {
	state, err := withID(req.Config)
	return &tfprotov6.ReadDataSourceResponse{State: state}, err
}

// withID returns the object in from with its id set, or unknown if its text is
// unknown. A null object, which will be destroyed, stays null.
func withID(from *tfprotov6.DynamicValue) (*tfprotov6.DynamicValue, error) {
	value, err := from.Unmarshal(thing)
	if err != nil || value.IsNull() {
		return from, err
	}
	var attributes map[string]tftypes.Value
	if err := value.As(&attributes); err != nil {
		return nil, err
	}
	attributes["id"] = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	if attributes["text"].IsKnown() {
		var text string
		if err := attributes["text"].As(&text); err != nil {
			return nil, err
		}
		attributes["id"] = tftypes.NewValue(tftypes.String, "thing:"+text)
	}
	to, err := tfprotov6.NewDynamicValue(thing, tftypes.NewValue(thing, attributes))
	return &to, err
}
