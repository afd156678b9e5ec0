// Details of OpenNebula.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::platforms {

// context.sh: KEY='value', of one or more lines, quoted as for a shell. The machine config is in
// USER_DATA (or USERDATA): base64 if USERDATA_ENCODING says so, else base64 or not.
class Context {
 public:
  static constexpr size_t kMostEntries = 1000;
  explicit Context(kj::ArrayPtr<const char> text);
  kj::StringPtr value(kj::StringPtr key) const;  // empty if missing

 private:
  struct Entry {
    kj::String key, value;
  };
  kj::Vector<Entry> entries;
};

}  // namespace talos::platforms
