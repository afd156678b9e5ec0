#include "common/config/config-key-list.h"

#include <capnp/dynamic.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "common/base/annotation.h"
#include "common/base/error.h"
#include "common/config/documents/documents.h"

namespace talos::config {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::StructSchema;

using Keys = std::set<std::string, std::less<>>;

bool isMap(StructSchema::Field field) {
  return annotation::has(field, annotation::kMap);
}

std::string pathOf(const std::string& above, StructSchema::Field field) {
  auto name = annotation::nameOf(field);
  return above.empty() ? name.cStr() : above + "." + name.cStr();
}

// Returns the schema of the elements of a list or a map if they have keys themselves.
kj::Maybe<StructSchema> elementOf(StructSchema::Field field) {
  auto type = field.getType();
  if (!type.isList() || !type.asList().getElementType().isStruct()) return nullptr;
  auto element = type.asList().getElementType().asStruct();
  if (annotation::has(element, annotation::kInline)) return nullptr;
  if (!isMap(field)) return element;
  auto value = element.getFieldByName("value").getType();
  if (value.isStruct()) return value.asStruct();
  return nullptr;
}

std::string elementPath(const std::string& path, StructSchema::Field field) {
  return path + (isMap(field) ? "{}" : "[]");
}

void addKeys(StructSchema schema, const std::string& above, Keys& keys) {
  for (auto field : schema.getFields()) {
    if (annotation::has(field, annotation::kHidden)) continue;
    auto path = pathOf(above, field);
    keys.insert(path);
    if (field.getType().isStruct()) addKeys(field.getType().asStruct(), path, keys);
    KJ_IF_MAYBE (element, elementOf(field)) addKeys(*element, elementPath(path, field), keys);
  }
}

Keys keysOf(kj::StringPtr list) {
  Keys keys;
  std::string_view rest(list.cStr(), list.size());
  while (!rest.empty()) {
    auto end = rest.find('\n');
    auto line = rest.substr(0, end);
    if (line.empty() || end == std::string_view::npos ||
        !std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7f; })) {
      fail(ErrorKind::kInvalidArgument, "the list of config keys has a line that is no key");
    }
    keys.emplace(line);
    rest.remove_prefix(end + 1);
  }
  return keys;
}

class Comparison {
 public:
  Comparison(const Keys& known, kj::Vector<kj::String>& missing) : known(known), missing(missing) {}

  void compare(DynamicStruct::Reader config, const std::string& above) {
    for (auto field : config.getSchema().getFields()) {
      if (!config.has(field, capnp::HasMode::NON_DEFAULT)) continue;
      if (annotation::has(field, annotation::kHidden)) continue;
      auto path = pathOf(above, field);
      if (!known.contains(path)) {
        note(path);
      } else if (field.getType().isStruct()) {
        compare(config.get(field).as<DynamicStruct>(), path);
      } else if (elementOf(field) != nullptr) {
        elements(config.get(field).as<DynamicList>(), field, elementPath(path, field));
      }
    }
  }

 private:
  const Keys& known;
  kj::Vector<kj::String>& missing;
  Keys noted;

  void elements(DynamicList::Reader list, StructSchema::Field field, const std::string& path) {
    for (auto element : list) {
      auto each = element.as<DynamicStruct>();
      compare(isMap(field) ? each.get("value").as<DynamicStruct>() : each, path);
    }
  }
  void note(const std::string& path) {
    if (noted.insert(path).second) missing.add(kj::heapString(path.data(), path.size()));
  }
};

}  // namespace

kj::String keyList() {
  Keys keys;
  addKeys(capnp::Schema::from<Config>(), "", keys);
  for (auto kind : documentKinds()) keys.insert(kind.cStr());
  std::string text;
  for (auto& key : keys) text += key + "\n";
  return kj::heapString(text.data(), text.size());
}

kj::Vector<kj::String> keysNotIn(kj::StringPtr list, Config::Reader config) {
  auto known = keysOf(list);
  kj::Vector<kj::String> missing;
  Comparison(known, missing).compare(config, "");
  for (auto kind : config.getDocuments()) {
    if (kj::StringPtr(kind).findFirst('[') != nullptr) continue;  // a key of such a document
    if (!known.contains(kind.cStr())) missing.add(kj::str(kind));
  }
  return missing;
}

}  // namespace talos::config
