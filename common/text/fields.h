// The words of a line, as the kernel's files have them: one after the other, as slices of the line,
// as copies of short words would be many times as large as the text.
#pragma once

#include <kj/string.h>

namespace talos {

class Fields {
 public:
  explicit Fields(kj::ArrayPtr<const char> line) : rest(line) {}
  // Empty behind the last one.
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

// 0 when it is not a number.
template <typename T>
T numberIn(kj::ArrayPtr<const char> text) {
  constexpr size_t kLongest = 64;
  if (text.size() == 0 || text.size() > kLongest) return 0;
  return kj::heapString(text).tryParseAs<T>().orDefault(0);
}

}  // namespace talos
