#include "talosctl/commands/image-file.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/tls/signature.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {
namespace {

constexpr size_t kAtOnce = 64u << 10;  // of rpc/stream.capnp

// Of a file that has so many bytes more.
void readImage(int fd, uint64_t offset, kj::ArrayPtr<kj::byte> bytes, kj::StringPtr path) {
  for (size_t done = 0; done < bytes.size();) {
    auto rest = bytes.slice(done, bytes.size());
    ssize_t n = pread(fd, rest.begin(), rest.size(), static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      fail(ErrorKind::kFailedPrecondition, kj::str("cannot read ", path, ": ", strerror(errno)));
    }
    if (n == 0) fail(ErrorKind::kFailedPrecondition, kj::str(path, " has become shorter"));
    done += static_cast<size_t>(n);
  }
}

kj::Array<kj::byte> sha256(int fd, uint64_t size, kj::StringPtr path) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  KJ_DEFER(EVP_MD_CTX_free(context));
  KJ_REQUIRE(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  auto block = kj::heapArray<kj::byte>(1u << 20);
  for (uint64_t at = 0; at < size;) {
    auto part = block.slice(0, kj::min(size - at, block.size()));
    readImage(fd, at, part, path);
    KJ_REQUIRE(EVP_DigestUpdate(context, part.begin(), part.size()) == 1);
    at += part.size();
  }
  auto digest = kj::heapArray<kj::byte>(32);
  KJ_REQUIRE(EVP_DigestFinal_ex(context, digest.begin(), nullptr) == 1);
  return digest;
}

class FileSource final : public rpc::ByteSource::Server {
 public:
  FileSource(int fd, kj::StringPtr path, uint64_t size,
             kj::Function<void(uint64_t, uint64_t)> served)
      : fd(fd), path(path), size(size), served(kj::mv(served)) {}

  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    auto begin = kj::min(params.getOffset(), size);
    auto wanted = kj::min(kj::min(size_t{params.getSize()}, kAtOnce), size - begin);
    auto bytes = kj::heapArray<kj::byte>(wanted);
    readImage(fd, begin, bytes, path);
    context.getResults().setBytes(bytes);
    if (begin + wanted > farthest) {
      farthest = begin + wanted;
      served(farthest, size);
    }
    return kj::READY_NOW;
  }

 private:
  int fd;
  kj::StringPtr path;
  uint64_t size, farthest = 0;
  kj::Function<void(uint64_t, uint64_t)> served;
};

}  // namespace

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

ImageName splitImageName(kj::StringPtr image) {
  bool url = image.startsWith("http://") || image.startsWith("https://");
  auto fragment = strcspn(image.cStr(), "#");
  auto query = strcspn(image.cStr(), "?");
  if (!url || query >= fragment) return {kj::str(image), kj::String()};
  return {kj::str(image.slice(0, query), image.slice(fragment)),
          kj::str(image.slice(query + 1, fragment))};
}

ImageFile::ImageFile(kj::StringPtr name) : path(kj::str(name)) {
  fd = kj::AutoCloseFd(open(path.cStr(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (fd.get() < 0 || fstat(fd, &info) != 0) {
    fail(ErrorKind::kNotFound, kj::str("cannot read ", path, ": ", strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) fail(ErrorKind::kInvalidArgument, kj::str(path, " is not a file"));
  size = static_cast<uint64_t>(info.st_size);
  digest = sha256(fd, size, path);
  KJ_IF_MAYBE (text, tryReadFile(kj::str(path, ".sig"), pki::kMostSignatureFile)) {
    signature = kj::heapArray(text->asBytes());
  }
}

void ImageFile::fill(rpc::ImageFile::Builder out, kj::Function<void(uint64_t, uint64_t)> served) {
  out.setBytes(kj::heap<FileSource>(fd, path, size, kj::mv(served)));
  out.setSize(size);
  out.setSha256(digest);
  out.setSignature(signature);
}

}  // namespace talos::talosctl
