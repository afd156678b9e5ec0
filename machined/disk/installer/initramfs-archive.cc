#include "machined/disk/installer/initramfs-archive.h"

#include <kj/vector.h>
#include <stdio.h>

#include "common/base/error.h"

namespace talos::install {
namespace {

constexpr unsigned kRegularFile = 0100444;

// Pads names and contents to a multiple of four bytes, counted from the archive's beginning.
void pad(kj::Vector<char>& out) {
  while (out.size() % 4 != 0) out.add(0);
}

void addHead(kj::Vector<char>& out, kj::StringPtr name, unsigned mode, uint64_t size) {
  char head[111];
  // magic, inode, mode, uid, gid, links, time, size, two devices of two numbers each, length of the
  // name, check
  snprintf(head, sizeof head, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", 0u,
           mode, 0u, 0u, 1u, 0u, static_cast<unsigned>(size), 0u, 0u, 0u, 0u,
           static_cast<unsigned>(name.size() + 1), 0u);
  out.addAll(kj::StringPtr(head));
  out.addAll(name);
  out.add(0);
  pad(out);
}

}  // namespace

Wrapping wrapRootImage(uint64_t size) {
  if (size > UINT32_MAX) {
    fail(ErrorKind::kInvalidArgument, kj::str("the root image is too large: ", size, " bytes"));
  }
  kj::Vector<char> before, after;
  addHead(before, "rootfs.sqsh", kRegularFile, size);
  while ((before.size() + size + after.size()) % 4 != 0) after.add(0);
  kj::Vector<char> end;
  addHead(end, "TRAILER!!!", 0, 0);
  after.addAll(end);
  return {before.releaseAsArray(), after.releaseAsArray()};
}

}  // namespace talos::install
