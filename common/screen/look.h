// How text looks on a terminal, by its meaning, and the only place with the sequences for it
// (ECMA-48). Pure.
#pragma once

#include <kj/string.h>

namespace talos {

// By meaning, so that the picture is readable without colours as well.
enum class Look : uint8_t {
  kPlain,
  kTitle,     // bold
  kDim,       // of less interest
  kGood,      // green
  kWarning,   // yellow
  kBad,       // bold red
  kAccent,    // cyan
  kSelected,  // reverse
};

enum class Colors : uint8_t { kNone, kAnsi };

// Gives this look to the text behind it, whatever was set before. Without colours, what matters is
// bold.
kj::StringPtr renditionOf(Look look, Colors colors);

}  // namespace talos
