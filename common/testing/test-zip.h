// A gzip'd config, for tests.
#pragma once

#include <kj/compat/gzip.h>

#include <string>

namespace talos {

inline std::string zip(kj::StringPtr text) {
  kj::VectorOutputStream out;
  {
    kj::GzipOutputStream zipper(out);
    zipper.write(text.begin(), text.size());
  }
  auto bytes = out.getArray().asChars();
  return std::string(bytes.begin(), bytes.size());
}

}  // namespace talos
