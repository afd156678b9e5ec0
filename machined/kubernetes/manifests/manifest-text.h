// Fills values into the text of a manifest (templates/*.inc), so that it stays YAML for any values.
// Pure.
//
//   ${name}   a value as a YAML scalar, quoted where necessary
//   @{name}   a value as it is, for text inside a block; it must not have a line break
//   - ${name*} alone on a line: a line for each value of a list
//   #if name, #end  alone on a line: the text between them is kept if the value is not empty
//
// A name without a value is a mistake in this program, and an exception.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

class ManifestText {
 public:
  explicit ManifestText(kj::StringPtr text) : text(text) {}

  ManifestText& set(kj::StringPtr name, kj::StringPtr value);
  ManifestText& set(kj::StringPtr name, kj::Vector<kj::String> values);
  ManifestText& setIf(kj::StringPtr name, bool there) {
    return set(name, there ? "yes"_kj : ""_kj);
  }
  kj::String fill() const;

 private:
  kj::StringPtr text;
  kj::TreeMap<kj::String, kj::String> values;
  kj::TreeMap<kj::String, kj::Vector<kj::String>> lists;

  kj::StringPtr valueOf(kj::ArrayPtr<const char> name) const;
  kj::String filled(kj::ArrayPtr<const char> line) const;
  bool addList(kj::Vector<char>& out, kj::ArrayPtr<const char> line) const;
};

}  // namespace talos::machined
