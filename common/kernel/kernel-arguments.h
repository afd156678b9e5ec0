// The kernel's command line: "key=value key2", split at white space, in order; keys may repeat.
// Accepts any text; a bare key has the value "".
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

class KernelArguments {
 public:
  explicit KernelArguments(kj::ArrayPtr<const char> text);
  // Reads the arguments of the running kernel: /proc/cmdline.
  static KernelArguments ofThisKernel();

  kj::Maybe<kj::StringPtr> first(kj::StringPtr key) const;
  kj::Vector<kj::StringPtr> all(kj::StringPtr key) const;
  bool contains(kj::StringPtr key, kj::StringPtr value) const;

 private:
  struct Argument {
    kj::String key, value;
  };
  kj::Vector<Argument> arguments;
};

}  // namespace talos
