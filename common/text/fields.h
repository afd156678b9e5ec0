// Fields of a line in the kernel's format: returned one after the other, as slices of the line,
// because copies of short fields would be many times as large as the text.
#pragma once

#include <kj/string.h>

namespace talos {

class Fields {
 public:
  explicit Fields(kj::ArrayPtr<const char> line) : rest(line) {}
  // Returns an empty field after the last one.
  kj::ArrayPtr<const char> next() {
    auto isSpace = [&](size_t at) { return rest[at] == ' ' || rest[at] == '\t'; };
    size_t from = 0;
    while (from < rest.size() && isSpace(from)) ++from;
    auto end = from;
    while (end < rest.size() && !isSpace(end)) ++end;
    auto field = rest.slice(from, end);
    rest = rest.slice(end, rest.size());
    return field;
  }

 private:
  kj::ArrayPtr<const char> rest;
};

// "  eth0: 1 2 3": the name before the colon, and the fields after it, also without a blank between
// them.
struct NamedFields {
  kj::ArrayPtr<const char> name;
  Fields fields;
};
// Returns nullptr for a line without a colon, such as a heading.
inline kj::Maybe<NamedFields> namedFields(kj::ArrayPtr<const char> line) {
  size_t colon = 0;
  while (colon < line.size() && line[colon] != ':') ++colon;
  if (colon == line.size()) return nullptr;
  return NamedFields{Fields(line.slice(0, colon)).next(),
                     Fields(line.slice(colon + 1, line.size()))};
}

// Returns 0 if the text is not a number.
template <typename T>
T numberIn(kj::ArrayPtr<const char> text) {
  constexpr size_t kLongest = 64;
  if (text.size() == 0 || text.size() > kLongest) return 0;
  return kj::heapString(text).tryParseAs<T>().orDefault(0);
}

}  // namespace talos
