#include "machined/disk/installer/wipe-progress.h"

namespace talos::install {
namespace {

constexpr auto kSayEvery = 60 * kj::SECONDS;

}  // namespace

kj::Maybe<kj::String> WipeProgress::at(uint64_t done) {
  auto full = done * 10 / total;
  auto now = clock.now();
  if (full == tenths && now - said < kSayEvery) return nullptr;
  said = now;
  if (full == tenths) return kj::str(done >> 30, " of ", total >> 30, " GiB");
  tenths = full;
  return kj::str(tenths * 10, " %");
}

}  // namespace talos::install
