// Lists of texts.
#pragma once

#include <kj/string.h>

namespace talos {

inline kj::Array<kj::String> copyOf(kj::ArrayPtr<const kj::String> texts) {
  return KJ_MAP(text, texts) {
    return kj::str(text);
  };
}

}  // namespace talos
