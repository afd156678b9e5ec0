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
      // Not by Json's own writer: its streams bring YAML's parser into the brain (talos_lacks).
      case Json::value_t::boolean:
        plain(node, kj::str(value.get<bool>()));
        break;
      case Json::value_t::number_integer:
        plain(node, kj::str(value.get<int64_t>()));
        break;
      case Json::value_t::number_unsigned:
        plain(node, kj::str(value.get<uint64_t>()));
        break;
      case Json::value_t::number_float:
        plain(node, kj::str(value.get<double>()));
        break;
      case Json::value_t::binary:
      case Json::value_t::discarded:
        KJ_FAIL_REQUIRE("not a value of JSON");
    }
    return node;
  }

 private:
  kj::Arena arena;

  static void plain(YamlNode& node, kj::String text) {
    node.kind = YamlNode::Kind::kScalar;
    node.plain = true;
    node.text = kj::mv(text);
  }
};

}  // namespace

kj::String writeYaml(const Json& value, unsigned indent) {
  NodeMaker maker;
  return codec::renderYaml(maker.make(value), indent, 0);
}

}  // namespace talos::kube
