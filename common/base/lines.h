// Splits a text into lines. A line ends with a line break, or with the text.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <string.h>

#include <iterator>

namespace talos {

// Range for `for (auto line : Lines(text))`: each line without its line break, as a slice of the
// text, which must outlive it.
class Lines {
 public:
  explicit Lines(kj::ArrayPtr<const char> text) : text(text) {}

  class Iterator {
   public:
    explicit Iterator(kj::ArrayPtr<const char> rest) : rest(rest) { measure(); }
    kj::ArrayPtr<const char> operator*() const { return rest.slice(0, size); }
    Iterator& operator++() {
      rest = rest.slice(kj::min(size + 1, rest.size()), rest.size());
      measure();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return rest.size() == 0; }

   private:
    kj::ArrayPtr<const char> rest;
    size_t size;
    void measure() {
      for (size = 0; size < rest.size() && rest[size] != '\n';) ++size;
    }
  };
  Iterator begin() const { return Iterator(text); }
  std::default_sentinel_t end() const { return {}; }

 private:
  kj::ArrayPtr<const char> text;
};

inline kj::Vector<kj::String> linesOf(kj::ArrayPtr<const char> text) {
  kj::Vector<kj::String> lines;
  for (auto line : Lines(text)) lines.add(kj::heapString(line));
  return lines;
}

inline kj::ArrayPtr<const char> withoutLastBreaks(kj::ArrayPtr<const char> text) {
  while (text.size() > 0 && text.back() == '\n') text = text.slice(0, text.size() - 1);
  return text;
}

inline bool containsText(kj::ArrayPtr<const char> line, kj::StringPtr text) {
  return memmem(line.begin(), line.size(), text.begin(), text.size()) != nullptr;
}

// Returns the lines of a text that contain another text, each with a line break.
inline kj::Array<char> linesContaining(kj::ArrayPtr<const char> text, kj::StringPtr contained) {
  kj::Vector<char> found;
  for (auto line : Lines(text)) {
    if (!containsText(line, contained)) continue;
    found.addAll(line);
    found.add('\n');
  }
  return found.releaseAsArray();
}

// Returns the first line; empty if the text has no line.
inline kj::String firstLine(kj::ArrayPtr<const char> text) {
  for (auto line : Lines(text)) return kj::heapString(line);
  return kj::String();
}

}  // namespace talos
