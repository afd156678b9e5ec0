// Writes the disk of a platform (rootfs/platform-image.sh):
//   disk-image PLATFORM MIB SYSTEM ROOT OUT [KERNEL-ARGUMENT…]
// SYSTEM: the folder usr/install of an image; ROOT: its squashfs.
#include <kj/debug.h>
#include <stdio.h>

#include "common/base/error.h"
#include "machined/disk/image/disk-image.h"
#include "machined/disk/installer/boot-files.h"
#include "machined/platforms/platform.h"

namespace {

using namespace talos;

constexpr kj::StringPtr kMetal = "metal"_kj;

void makeDisk(kj::ArrayPtr<const kj::StringPtr> words) {
  constexpr size_t kWords = 5;
  if (words.size() < kWords) {
    fail(ErrorKind::kInvalidArgument, "usage: PLATFORM MIB SYSTEM ROOT OUT [KERNEL-ARGUMENT...]");
  }
  auto platform = words[0];
  if (platform != kMetal && platforms::called(platform) == nullptr) {
    auto names = KJ_MAP(each, platforms::all()) {
      return each->name;
    };
    fail(ErrorKind::kInvalidArgument, kj::str("\"", platform, "\" is not a platform; use ", kMetal,
                                              ", ", kj::strArray(names, ", ")));
  }
  auto size = KJ_UNWRAP_OR(words[1].tryParseAs<uint32_t>(), {
    fail(ErrorKind::kInvalidArgument, kj::str("\"", words[1], "\" is not a number of MiB"));
  });
  auto arguments = install::bootArguments(
      {.platform = platform, .config = "", .extra = words.slice(kWords, words.size())});
  install::writeDiskImage({.file = words[4], .bytes = uint64_t{size} << 20, .arguments = arguments},
                          {.folder = words[2], .image = kj::str(words[3])});
}

}  // namespace

int main(int argc, char** argv) {
  auto failure = kj::runCatchingExceptions([&] {
    auto words = KJ_MAP(word, kj::arrayPtr(argv, argc).slice(1, argc)) {
      return kj::StringPtr(word);
    };
    makeDisk(words);
  });
  KJ_IF_MAYBE (e, failure) {
    fprintf(stderr, "disk-image: %s\n", messageOf(*e).cStr());
    return 1;
  }
  return 0;
}
