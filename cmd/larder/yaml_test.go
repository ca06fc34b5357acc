package main

import "go.yaml.in/yaml/v3"

// parseYAML returns a document, or an error. Mappings are map[string]any, lists are []any, and scalars are strings.
func parseYAML(text string) any {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return err
	}
	return plainYAML(document.Content[0])
}

func plainYAML(n *yaml.Node) any {
	switch n.Kind {
	case yaml.AliasNode:
		return plainYAML(n.Alias)
	case yaml.MappingNode:
		all := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			all[n.Content[i].Value] = plainYAML(n.Content[i+1])
		}
		return all
	case yaml.SequenceNode:
		var list []any
		for _, item := range n.Content {
			list = append(list, plainYAML(item))
		}
		return list
	default:
		return n.Value
	}
}
