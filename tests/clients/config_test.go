package clients

import (
	"context"
	_ "embed"
	"os"
	"strings"
	"testing"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"gopkg.in/yaml.v3"
)

//go:embed keys-1.9.txt
var keysOf19 string

// A key, and those below it; none below the last of a path.
type knownKey map[string]knownKey

func knownKeys(text string) knownKey {
	root := knownKey{}
	for _, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		at := root
		for _, part := range strings.Split(strings.ReplaceAll(line, "[]", ".[]"), ".") {
			if at[part] == nil {
				at[part] = knownKey{}
			}
			at = at[part]
		}
	}
	return root
}

// The paths in a document that are not known.
func unknownKeys(node *yaml.Node, known knownKey, path string) (unknown []string) {
	if len(known) == 0 {
		return nil
	}
	switch node.Kind {
	case yaml.DocumentNode:
		return unknownKeys(node.Content[0], known, path)
	case yaml.SequenceNode:
		for _, item := range node.Content {
			unknown = append(unknown, unknownKeys(item, known["[]"], path+"[]")...)
		}
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			name := node.Content[i].Value
			below, ok := known[name]
			if !ok {
				below, ok = known["*"]
			}
			if !ok {
				unknown = append(unknown, strings.TrimPrefix(path+"."+name, "."))
				continue
			}
			unknown = append(unknown, unknownKeys(node.Content[i+1], below, path+"."+name)...)
		}
	}
	return unknown
}

// Catches: a list of keys that admits everything.
func TestUnknownKeys(t *testing.T) {
	known := knownKeys(keysOf19)
	for text, want := range map[string]string{
		"machine: {type: init, caHash: x}":                                  "machine.caHash",
		"cluster: {trustd: {endpoints: []}}":                                "cluster.trustd",
		"machine: {network: {interfaces: [{interface: a, vip: {ttl: 1}}]}}": "machine.network.interfaces[].vip.ttl",
		"machine: {registries: {mirrors: {a.b: {endpoint: []}}}}":           "machine.registries.mirrors.a.b.endpoint",
		"machine: {sysctls: {net.a: 1}, kubelet: {}}":                       "",
		"talos: {}": "talos",
	} {
		var document yaml.Node
		must(t, yaml.Unmarshal([]byte(text), &document))
		if got := strings.Join(unknownKeys(&document, known, ""), " "); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// The config that each node runs with, read as clients of 1.9 read it before they edit, patch or apply it: strictly.
// Catches: a key of ours in a config that we wrote, which such a client refuses.
func TestConfigKeys(t *testing.T) {
	one, conn := here(t)
	nodes := []string{one}
	if os.Getenv("NODES") != "" {
		nodes = everyNode()
	}
	known := knownKeys(keysOf19)
	for _, node := range nodes {
		ctx, cancel := context.WithTimeout(ToOne(node), Patience)
		defer cancel()
		resources := state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conn)))
		config, err := resources.Get(ctx, resource.NewMetadata("config", "MachineConfigs.config.talos.dev", "v1alpha1", resource.VersionUndefined))
		must(t, err)
		text, err := config.Spec().(interface{ MarshalYAMLBytes() ([]byte, error) }).MarshalYAMLBytes()
		must(t, err)
		var document yaml.Node
		must(t, yaml.Unmarshal(text, &document))
		var parts map[string]any
		must(t, document.Decode(&parts))
		if parts["machine"] == nil || parts["cluster"] == nil {
			t.Errorf("%s: not a machine config", node)
		}
		for _, key := range unknownKeys(&document, known, "") {
			t.Errorf("%s: clients of 1.9 do not know %s", node, key)
		}
	}
}
