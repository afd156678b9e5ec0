#include "machined/disk/installer/installer-image.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "machined/disk/installer/digest-list.h"

namespace talos::install {
namespace {

constexpr kj::StringPtr kInImage = "usr/install"_kj;

[[noreturn]] void noImage(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition, kj::str("not an installer image: ", problem));
}

kj::AutoCloseFd openRoot(const ImageMount& image) {
  int raw = -1;
  if (image.type == "bind") {
    raw = open(image.source.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (raw < 0) noImage(kj::str("cannot open ", image.source, ": ", strerror(errno)));
    return kj::AutoCloseFd(raw);
  }
  if (image.type != "overlay") noImage(kj::str("unknown kind of mount ", image.type));
  KJ_SYSCALL(raw = fsopen("overlay", FSOPEN_CLOEXEC));
  kj::AutoCloseFd context(raw);
  for (auto& option : image.options) {
    KJ_IF_MAYBE (at, option.findFirst('=')) {
      auto key = kj::heapString(option.slice(0, *at));
      if (key != "lowerdir") continue;  // a view has no writable layer
      // Added one by one: a value has at most 255 bytes, which four layers exceed.
      for (auto rest = option.slice(*at + 1);;) {
        auto colon = rest.findFirst(':');
        auto one = kj::heapString(rest.slice(0, colon.orDefault(rest.size())));
        KJ_SYSCALL(fsconfig(context, FSCONFIG_SET_STRING, "lowerdir+", one.cStr(), 0), one);
        KJ_IF_MAYBE (c, colon) {
          rest = rest.slice(*c + 1);
        } else {
          break;
        }
      }
    }
  }
  KJ_SYSCALL(fsconfig(context, FSCONFIG_SET_FLAG, "ro", nullptr, 0));
  KJ_SYSCALL(fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0));
  KJ_SYSCALL(raw = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY));
  return kj::AutoCloseFd(raw);
}

class MountedImage final : public InstallerImage {
 public:
  explicit MountedImage(const ImageMount& mount) : top(openRoot(mount)) {}

  kj::Maybe<int> root() const override { return top.get(); }

  bool has(kj::StringPtr name) override {
    auto raw = openBelow(name);
    if (raw < 0 && errno == ENOENT) return false;
    if (raw >= 0) close(static_cast<int>(raw));
    return true;  // openPart() reports the problem
  }
  // Opens a regular file of the image, following no link, and not outside of the image.
  Part openPart(kj::StringPtr name) override {
    auto path = kj::str(kInImage, "/", name);
    auto raw = openBelow(name);
    if (raw < 0) noImage(kj::str("cannot open /", path, ": ", strerror(errno)));
    kj::AutoCloseFd fd(static_cast<int>(raw));
    struct stat info;
    KJ_SYSCALL(fstat(fd, &info));
    if (!S_ISREG(info.st_mode)) noImage(kj::str("/", path, " is not a file"));
    auto range = wholeOf(fd);
    return {kj::mv(fd), range};
  }

 private:
  kj::AutoCloseFd top;

  long openBelow(kj::StringPtr name) {
    struct open_how how = {};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return syscall(SYS_openat2, top.get(), kj::str(kInImage, "/", name).cStr(), &how, sizeof how);
  }
};

class ArchivedImage final : public InstallerImage {
 public:
  explicit ArchivedImage(const ImageInArchive& image)
      : image(image), archiveSize(sizeOf(image.archive)) {}

  bool has(kj::StringPtr name) override {
    for (auto& part : image.parts) {
      if (part.name == name) return true;
    }
    return false;
  }
  Part openPart(kj::StringPtr name) override {
    for (auto& part : image.parts) {
      if (part.name != name) continue;
      if (part.offset > archiveSize || part.size > archiveSize - part.offset) {
        noImage(kj::str("/", kInImage, "/", name, " is not in the archive"));
      }
      return {nullptr, {image.archive, part.offset, part.size}};
    }
    noImage(kj::str("/", kInImage, "/", name, " is missing"));
  }

 private:
  const ImageInArchive& image;
  uint64_t archiveSize;
};

}  // namespace

kj::Array<char> InstallerImage::small(kj::StringPtr name, size_t limit) {
  auto part = openPart(name);
  if (part.range.size > limit) noImage(kj::str("/", kInImage, "/", name, " is too large"));
  auto bytes = kj::heapArray<char>(part.range.size);
  ssize_t n;
  KJ_SYSCALL(
      n = pread(part.range.fd, bytes.begin(), bytes.size(), static_cast<off_t>(part.range.begin)),
      name);
  if (n != bytes.size()) noImage(kj::str("/", kInImage, "/", name, " is cut off"));
  return bytes;
}

kj::Array<char> InstallerImage::versionFile() {
  return small("version", kMostVersionFile);
}

kj::String InstallerImage::version() {
  return imageVersion(versionFile());
}

kj::String InstallerImage::configKeys() {
  if (!has(kConfigKeysFile)) return kj::String();
  return kj::heapString(small(kConfigKeysFile, kMostConfigKeys));
}

kj::Vector<kj::String> InstallerImage::extensions() {
  constexpr kj::StringPtr kKey = "//extension="_kj;
  kj::Vector<kj::String> found;
  auto keys = configKeys();
  for (auto line : Lines(keys)) {
    auto text = kj::heapString(line);
    if (text.startsWith(kKey)) found.add(kj::str(text.slice(kKey.size())));
  }
  return found;
}

kj::Own<InstallerImage> openImage(const ImageSource& source) {
  KJ_SWITCH_ONEOF(source) {
    KJ_CASE_ONEOF(mount, ImageMount) {
      return kj::heap<MountedImage>(mount);
    }
    KJ_CASE_ONEOF(archive, ImageInArchive) {
      return kj::heap<ArchivedImage>(archive);
    }
  }
  KJ_UNREACHABLE;
}

}  // namespace talos::install
