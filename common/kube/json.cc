#include "common/kube/json.h"

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "common/text/plain-text.h"

namespace talos::kube {
namespace {

// Returns the limit that a text exceeds: the library's writer and comparison recurse once a level,
// and it searches all members of an object for each that it adds.
kj::Maybe<kj::String> excessOf(kj::ArrayPtr<const char> text) {
  unsigned depth = 0;
  unsigned members[kMostJsonDepth + 1] = {};
  bool quoted = false, escaped = false;
  for (char c : text) {
    if (quoted) {
      quoted = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth) return kj::str(kMostJsonDepth, " levels");
      members[depth] = 0;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == ':' && ++members[depth] > kMostJsonMembers) {
      return kj::str(kMostJsonMembers, " members in an object");
    }
  }
  return nullptr;
}

}  // namespace

Json readJson(kj::ArrayPtr<const char> text, kj::StringPtr what) {
  KJ_IF_MAYBE (excess, excessOf(text)) {
    fail(ErrorKind::kInvalidArgument, kj::str(what, " has more than ", *excess, " of JSON"));
  }
  auto value = Json::parse(text.begin(), text.end(), nullptr, false);
  if (value.is_discarded()) fail(ErrorKind::kInvalidArgument, kj::str(what, " is not valid JSON"));
  return value;
}

kj::String writeJson(const Json& value) {
  auto text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  // The library escapes only C0; other characters that are not plain occur only within strings.
  kj::Vector<char> out(text.size() + 1);
  for (auto rest = toPtr(text).asBytes(); rest.size() > 0;) {
    auto character = firstCharacter(rest);
    auto bytes = rest.slice(0, character.bytes).asChars();
    if (character.plain) {
      out.addAll(bytes);
    } else {
      addEscaped(out, bytes, Surface::kJson);
    }
    rest = rest.slice(character.bytes, rest.size());
  }
  return kj::heapString(out.asPtr());
}

kj::Maybe<const Json&> find(const Json& value, JsonPath path) {
  auto at = &value;
  for (auto key : path) {
    if (!at->is_object()) return nullptr;
    auto found = at->find(key.cStr());
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return *at;
}

kj::StringPtr textAt(const Json& value, JsonPath path) {
  KJ_IF_MAYBE (found, find(value, path)) {
    if (found->is_string()) return toPtr(found->get_ref<const std::string&>());
  }
  return "";
}

kj::Vector<const Json*> itemsAt(const Json& value, JsonPath path) {
  kj::Vector<const Json*> items;
  KJ_IF_MAYBE (found, find(value, path)) {
    if (found->is_array()) {
      for (auto& item : *found) items.add(&item);
    }
  }
  return items;
}

bool flagAt(const Json& value, JsonPath path) {
  KJ_IF_MAYBE (found, find(value, path)) {
    return found->is_boolean() && found->get<bool>();
  }
  return false;
}

int64_t numberAt(const Json& value, JsonPath path, int64_t otherwise) {
  KJ_IF_MAYBE (found, find(value, path)) {
    if (found->is_number_integer()) return found->get<int64_t>();
  }
  return otherwise;
}

void wipe(Json& value) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    zeroize(kj::arrayPtr(text.data(), text.size()));
  } else if (value.is_structured()) {
    for (auto& item : value) wipe(item);
  }
}

kj::String nameOf(const Json& object) {
  auto name = textAt(object, {"metadata", "name"});
  auto nameSpace = textAt(object, {"metadata", "namespace"});
  return nameSpace.size() == 0 ? kj::str(name) : kj::str(nameSpace, "/", name);
}

}  // namespace talos::kube
