// Writes the disk of a platform (rootfs/platform-image.sh):
//   disk-image PLATFORM MIB SYSTEM ROOT OUT [KERNEL-ARGUMENT…]
// SYSTEM: the folder usr/install of an image; ROOT: its squashfs.
//   disk-image arguments PLATFORM [KERNEL-ARGUMENT…]
// prints the kernel's arguments, for starts from a CD (rootfs/iso.sh) or from the network.
#include <kj/debug.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/standard-streams.h"
#include "machined/disk/image/disk-image.h"
#include "machined/disk/installer/boot-files.h"
#include "machined/platforms/platform.h"

namespace {

using namespace talos;

using Words = kj::ArrayPtr<const kj::StringPtr>;

constexpr kj::StringPtr kMetal = "metal"_kj;
constexpr kj::StringPtr kConfig = "talos.config="_kj;

// The first talos.config of a line counts, so a given source is the only one.
kj::String argumentsOf(kj::StringPtr platform, Words given, bool sourceMayFollow) {
  if (platform != kMetal && platforms::called(platform) == nullptr) {
    auto names = KJ_MAP(each, platforms::all()) {
      return each->name;
    };
    fail(ErrorKind::kInvalidArgument, kj::str("\"", platform, "\" is not a platform; use ", kMetal,
                                              ", ", kj::strArray(names, ", ")));
  }
  kj::StringPtr config;
  kj::Vector<kj::StringPtr> extra;
  for (auto argument : given) {
    if (argument.startsWith(kConfig)) {
      config = argument.slice(kConfig.size());
    } else {
      extra.add(argument);
    }
  }
  return install::bootArguments(
      {.platform = platform, .config = config, .extra = extra, .sourceMayFollow = sourceMayFollow});
}

void run(Words words) {
  constexpr size_t kPrint = 2, kDisk = 5;
  if (words.size() >= kPrint && words[0] == "arguments") {
    printf("%s\n", argumentsOf(words[1], words.slice(kPrint, words.size()), true).cStr());
    return;
  }
  if (words.size() < kDisk) {
    fail(ErrorKind::kInvalidArgument,
         "usage: PLATFORM MIB SYSTEM ROOT OUT [KERNEL-ARGUMENT...], or arguments PLATFORM "
         "[KERNEL-ARGUMENT...]");
  }
  auto size = KJ_UNWRAP_OR(words[1].tryParseAs<uint32_t>(), {
    fail(ErrorKind::kInvalidArgument, kj::str("\"", words[1], "\" is not a number of MiB"));
  });
  auto arguments = argumentsOf(words[0], words.slice(kDisk, words.size()), false);
  install::writeDiskImage({.file = words[4], .bytes = uint64_t{size} << 20, .arguments = arguments},
                          {.folder = words[2], .image = kj::str(words[3])});
}

}  // namespace

int main(int argc, char** argv) {
  openClosedStandardStreams();
  auto failure = kj::runCatchingExceptions([&] {
    auto words = KJ_MAP(word, kj::arrayPtr(argv, argc).slice(1, argc)) {
      return kj::StringPtr(word);
    };
    run(words);
  });
  KJ_IF_MAYBE (e, failure) {
    fprintf(stderr, "disk-image: %s\n", messageOf(*e).cStr());
    return 1;
  }
  return 0;
}
