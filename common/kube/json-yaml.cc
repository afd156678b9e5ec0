#include "common/kube/json-yaml.h"

#include <kj/arena.h>

#include "common/yaml/yaml.h"

namespace talos::kube {
namespace {

using codec::YamlNode;

class NodeMaker {
 public:
  const YamlNode& make(const Json& value) {
    auto& node = arena.allocate<YamlNode>();
    switch (value.type()) {
      case Json::value_t::object:
        node.kind = YamlNode::Kind::kMapping;
        for (auto& [key, item] : value.items()) {
          codec::Entry entry;
          entry.key = kj::str(toPtr(key));
          entry.value = &make(item);
          node.entries.add(kj::mv(entry));
        }
        break;
      case Json::value_t::array:
        node.kind = YamlNode::Kind::kSequence;
        for (auto& item : value) node.items.add(&make(item));
        break;
      case Json::value_t::string:
        node.kind = YamlNode::Kind::kScalar;
        node.text = kj::str(toPtr(value.get_ref<const std::string&>()));
        break;
      case Json::value_t::null:
        node.kind = YamlNode::Kind::kNull;
        break;
      default:
        node.kind = YamlNode::Kind::kScalar;
        node.plain = true;
        node.text = writeJson(value);
    }
    return node;
  }

 private:
  kj::Arena arena;
};

}  // namespace

kj::String writeYaml(const Json& value, unsigned indent) {
  NodeMaker maker;
  return codec::renderYaml(maker.make(value), indent, 0);
}

}  // namespace talos::kube
