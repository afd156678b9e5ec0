#include "talosctl/upgrade/image-file.h"

#include <kj/encoding.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/tls/signature.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

bool isImageFile(kj::StringPtr image) {
  for (auto begin : {"/"_kj, "./"_kj, "../"_kj}) {
    if (image.startsWith(begin)) return true;
  }
  struct stat info;
  if (stat(image.cStr(), &info) == 0 && S_ISREG(info.st_mode)) {
    failUsage(kj::str("--image ", image, " is a file here, and a name for a registry; write ./",
                      image, " for the file"));
  }
  return false;
}

ImageFile::ImageFile(kj::Own<SentFile> file, kj::Array<kj::byte> digest,
                     kj::Array<kj::byte> signature)
    : file(kj::mv(file)), digest(kj::mv(digest)), signature(kj::mv(signature)) {}

kj::Promise<kj::Own<ImageFile>> ImageFile::open(kj::Timer& timer, kj::StringPtr path) {
  auto beside = kj::str(path, ".sig");
  auto file = kj::heap<SentFile>(path);
  auto digest = co_await file->sha256(timer);
  kj::Array<kj::byte> signature;
  KJ_IF_MAYBE (text, tryReadFile(beside, pki::kMostSignatureFile)) {
    signature = kj::heapArray(text->asBytes());
  }
  co_return kj::heap<ImageFile>(kj::mv(file), kj::mv(digest), kj::mv(signature));
}

kj::String ImageFile::digestText() const {
  return kj::str("sha256:", kj::encodeHex(digest));
}

void ImageFile::fill(rpc::ImageFile::Builder out, kj::Function<void(uint64_t, uint64_t)> served) {
  out.setBytes(file->source(kj::mv(served)));
  out.setSize(file->size());
  out.setSha256(digest);
  out.setSignature(signature);
}

}  // namespace talos::talosctl
