// Looks of text on a terminal, by its meaning; the only place with the sequences for them
// (ECMA-48). Pure.
#pragma once

#include <kj/string.h>

namespace talos {

// Named by meaning, so that the picture is readable without colours as well.
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

// Returns the sequence that gives this look to the following text, whatever was set before. Without
// colours, the important looks are bold.
kj::StringPtr renditionOf(Look look, Colors colors);

}  // namespace talos
