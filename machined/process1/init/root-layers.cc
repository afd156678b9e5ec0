#include "machined/process1/init/root-layers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machined/process1/init/initramfs.h"
#include "machined/process1/init/machine-shutdown.h"

namespace talos::process1 {
namespace {

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr uint32_t rotated(uint32_t value, unsigned bits) {
  return value >> bits | value << (32 - bits);
}

bool isHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// Writes a text before the present one, which begins there.
void putBefore(char* buffer, size_t& begin, const char* text) {
  for (size_t left = strlen(text); left > 0;) buffer[--begin] = text[--left];
}

// Verifies the layer and mounts it on `folder`.
void mountLayer(const Console& console, const RootLayer& layer, const char* folder) {
  char file[256], digits[kDigestDigits + 1];
  snprintf(file, sizeof file, "%s/%s", kLayerFolder, layer.name);
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) stopInitramfs(console, "open the layer of a system extension", file);
  int error = digestOfFile(fd, digits);
  close(fd);
  errno = error;
  if (error != 0) stopInitramfs(console, "read the layer of a system extension", file);
  if (memcmp(digits, layer.digest, kDigestDigits) != 0) {
    Line line;
    line.add("the layer ")
        .add(layer.name)
        .add(" of a system extension is damaged: its SHA-256 is ");
    line.add(digits, kDigestDigits).add(", the image states ").add(layer.digest, kDigestDigits);
    haltWithError(console, line.text(), 0);
  }
  mountImageFile(console, file, folder);
}

}  // namespace

bool nextLayer(char*& rest, RootLayer& layer, bool& wrong) {
  if (*rest == 0) return false;
  char* line = rest;
  char* end = strchr(line, '\n');
  rest = end == nullptr ? line + strlen(line) : end + 1;
  if (end != nullptr) *end = 0;
  size_t digits = 0;
  while (isHexDigit(line[digits])) ++digits;
  const char* name = line + digits + 2;
  wrong = digits != kDigestDigits || line[digits] != ' ' || line[digits + 1] != ' ' || *name == 0 ||
          strchr(name, '/') != nullptr || *name == '.';
  layer = {line, name};
  return !wrong;
}

void LayerDigest::compress(const uint8_t* bytes) {
  uint32_t w[64];
  for (unsigned i = 0; i < 16; ++i) {
    w[i] = uint32_t{bytes[4 * i]} << 24 | uint32_t{bytes[4 * i + 1]} << 16 |
           uint32_t{bytes[4 * i + 2]} << 8 | bytes[4 * i + 3];
  }
  for (unsigned i = 16; i < 64; ++i) {
    auto low = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
    auto high = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  uint32_t v[8];
  memcpy(v, state, sizeof v);
  for (unsigned i = 0; i < 64; ++i) {
    auto choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    auto first = v[7] + (rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25)) + choice +
                 kRounds[i] + w[i];
    auto majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    auto second = (rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22)) + majority;
    memmove(v + 1, v, 7 * sizeof v[0]);
    v[4] += first;
    v[0] = first + second;
  }
  for (unsigned i = 0; i < 8; ++i) state[i] += v[i];
}

void LayerDigest::add(const uint8_t* bytes, size_t size) {
  size_t used = total % sizeof block;
  total += size;
  if (used > 0) {
    size_t part = size < sizeof block - used ? size : sizeof block - used;
    memcpy(block + used, bytes, part);
    bytes += part;
    size -= part;
    if (used + part < sizeof block) return;
    compress(block);
  }
  for (; size >= sizeof block; bytes += sizeof block, size -= sizeof block) compress(bytes);
  memcpy(block, bytes, size);
}

void LayerDigest::finish(char (&digits)[kDigestDigits + 1]) {
  constexpr uint8_t kEnd = 0x80, kZero = 0;
  uint64_t bits = total * 8;
  add(&kEnd, 1);
  while (total % sizeof block != sizeof block - sizeof bits) add(&kZero, 1);
  uint8_t length[sizeof bits];
  for (unsigned i = 0; i < sizeof bits; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  add(length, sizeof length);
  for (unsigned i = 0; i < 8; ++i) snprintf(digits + 8 * i, 9, "%08x", state[i]);
}

int digestOfFile(int fd, char (&digits)[kDigestDigits + 1]) {
  static uint8_t buffer[64 << 10];
  LayerDigest digest;
  for (;;) {
    ssize_t size = read(fd, buffer, sizeof buffer);
    if (size < 0) return errno;
    if (size == 0) break;
    digest.add(buffer, static_cast<size_t>(size));
  }
  digest.finish(digits);
  return 0;
}

void mountLayers(const Console& console) {
  loadListedModules(console, kLayerModules);
  static char list[kMostLayers * 256];
  int fd = open(kLayerList, O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? -1 : read(fd, list, sizeof list - 1);
  if (size < 0) stopInitramfs(console, "read", kLayerList);
  close(fd);
  list[size] = 0;
  mountImageFile(console, kRootImage, kRootImageMount);
  // The first folder of an overlay is the uppermost.
  static char folders[4096];
  size_t begin = sizeof folders - 1;
  putBefore(folders, begin, kRootImageMount);
  char* rest = list;
  RootLayer layer;
  bool wrong = false;
  unsigned count = 0;
  while (nextLayer(rest, layer, wrong)) {
    if (++count > kMostLayers) break;
    char folder[32];
    snprintf(folder, sizeof folder, "/layer%u", count);
    mountLayer(console, layer, folder);
    putBefore(folders, begin, ":");
    putBefore(folders, begin, folder);
  }
  errno = wrong ? EINVAL : E2BIG;
  if (wrong || count > kMostLayers) stopInitramfs(console, "understand", kLayerList);
  static char options[4200];
  snprintf(options, sizeof options, "lowerdir=%s", folders + begin);
  mkdir("/root", 0755);
  if (mount("overlay", "/root", "overlay", MS_RDONLY, options) != 0) {
    stopInitramfs(console, "mount the layers of the root:", options);
  }
  // The overlay holds its layers; each device is freed with it.
  for (unsigned i = 1; i <= count; ++i) {
    char folder[32];
    snprintf(folder, sizeof folder, "/layer%u", i);
    umount2(folder, MNT_DETACH);
  }
  console.info("the root has ", count, count == 1 ? " layer" : " layers", " of system extensions");
}

}  // namespace talos::process1
