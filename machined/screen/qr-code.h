// A QR code (ISO/IEC 18004, by libqrcodegen) of half blocks: two modules in the height of a cell.
// Light modules are drawn; dark modules are the background of the screen. The quiet zone surrounds
// the code, because a camera does not find a code without it. Pure.
#pragma once

#include "common/screen/canvas.h"

namespace talos::machined {

struct QrCode {
  size_t size = 0;          // modules of a side, with the quiet zone
  kj::Array<bool> modules;  // light; rows from the top
  size_t rows() const { return (size + 1) / 2; }
};

// Returns nullptr if the text is too long for a code.
kj::Maybe<QrCode> qrCodeOf(kj::StringPtr text);

void drawQrCode(Canvas& canvas, size_t row, size_t column, const QrCode& code);

}  // namespace talos::machined
