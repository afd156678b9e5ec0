// The particulars of OpenNebula.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::platforms {

// context.sh: lines KEY="value". The machine config is base64 in USER_DATA.
class Context {
 public:
  static constexpr size_t kMostEntries = 1000;
  explicit Context(kj::ArrayPtr<const char> text);
  kj::StringPtr value(kj::StringPtr key) const;  // empty: there is none

 private:
  struct Entry {
    kj::String key, value;
  };
  kj::Vector<Entry> entries;
};

}  // namespace talos::platforms
