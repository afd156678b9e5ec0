// Kubernetes' objects as JSON values: reads them from foreign bytes, looks up fields, writes them
// as JSON and as YAML.
//
// Reading is bounded (levels, members of an object; the caller bounds the bytes) and returns a
// value or throws InvalidArgument. Looking up never throws: a field of another type than requested
// counts as absent. Keys keep their order, so equal values give equal bytes.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <nlohmann/json.hpp>

namespace talos::kube {

using Json = nlohmann::ordered_json;
using JsonPath = std::initializer_list<kj::StringPtr>;

constexpr unsigned kMostJsonDepth = 200, kMostJsonMembers = 5000;

// `what` names the source in the message: "the answer of the API server".
Json readJson(kj::ArrayPtr<const char> text, kj::StringPtr what);
// Writes one line. Bytes that are not valid UTF-8 are replaced.
kj::String writeJson(const Json& value);

// Returns the value at this path of keys.
kj::Maybe<const Json&> find(const Json& value, JsonPath path);
// Returns an empty text if the value is absent or not a text.
kj::StringPtr textAt(const Json& value, JsonPath path);
// Returns an empty list if the value is absent or not a list.
kj::Vector<const Json*> itemsAt(const Json& value, JsonPath path);
bool flagAt(const Json& value, JsonPath path);
int64_t numberAt(const Json& value, JsonPath path, int64_t otherwise = 0);

// Overwrites every text in the value, which may be a secret.
void wipe(Json& value);

// Returns "kube-system/coredns", or "master-1" for an object without a namespace.
kj::String nameOf(const Json& object);

inline kj::StringPtr toPtr(const std::string& text) {
  return {text.data(), text.size()};
}

}  // namespace talos::kube
