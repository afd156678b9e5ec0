#include "machined/screen/qr-code.h"

#include <qrcodegen/qrcodegen.hpp>

namespace talos::machined {

namespace {

// Width of the quiet zone in modules. The standard requires four, but cameras need only two, and a
// text screen has few rows.
constexpr size_t kQuiet = 2;

}  // namespace

kj::Maybe<QrCode> qrCodeOf(kj::StringPtr text) {
  try {
    auto made = qrcodegen::QrCode::encodeText(text.cStr(), qrcodegen::QrCode::Ecc::LOW);
    QrCode code;
    code.size = size_t(made.getSize()) + 2 * kQuiet;
    code.modules = kj::heapArray<bool>(code.size * code.size);
    for (size_t row = 0; row < code.size; ++row) {
      for (size_t column = 0; column < code.size; ++column) {
        // Outside of the code a module is light.
        code.modules[row * code.size + column] =
            !made.getModule(int(column) - int(kQuiet), int(row) - int(kQuiet));
      }
    }
    return kj::mv(code);
  } catch (const qrcodegen::data_too_long&) {
    return nullptr;
  }
}

void drawQrCode(Canvas& canvas, size_t row, size_t column, const QrCode& code) {
  auto light = [&](size_t y, size_t x) {
    return y >= code.size || code.modules[y * code.size + x];
  };
  for (size_t y = 0; y < code.size; y += 2) {
    for (size_t x = 0; x < code.size; ++x) {
      bool above = light(y, x), below = y + 1 < code.size && light(y + 1, x);
      auto block = above && below ? U'█' : above ? U'▀' : below ? U'▄' : U' ';
      canvas.fill(row + y / 2, column + x, 1, block, Look::kPlain);
    }
  }
}

}  // namespace talos::machined
