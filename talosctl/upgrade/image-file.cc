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

ImageFile::ImageFile(kj::StringPtr path) : file(path) {
  digest = file.sha256();
  KJ_IF_MAYBE (text, tryReadFile(kj::str(path, ".sig"), pki::kMostSignatureFile)) {
    signature = kj::heapArray(text->asBytes());
  }
}

kj::String ImageFile::digestText() const {
  return kj::str("sha256:", kj::encodeHex(digest));
}

void ImageFile::fill(rpc::ImageFile::Builder out, kj::Function<void(uint64_t, uint64_t)> served) {
  out.setBytes(file.source(kj::mv(served)));
  out.setSize(file.size());
  out.setSha256(digest);
  out.setSignature(signature);
}

}  // namespace talos::talosctl
