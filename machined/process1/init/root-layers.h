// The layers of the root file system, which the initramfs carries: the root image and, above it,
// those of system extensions. An image without extensions has no list of layers, and its root is
// the root image alone.
//
// The list has a line for each layer, from the lowest up, as sha256sum writes it: 64 hexadecimal
// digits, two blanks, the name of a file in /extensions. The builder of the image writes it
// (rootfs/extensions.sh). Each layer is compared with its digest before it is mounted: an archive
// of the initramfs that was damaged on the disk unpacks without an error. A layer lives in memory
// from then on, so nothing changes it later.
//
// Nothing is written, so a crash leaves nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

constexpr const char* kLayerFolder = "/extensions";
constexpr const char* kLayerList = "/extensions/layers";
// A list of modules, as kModules of initramfs.cc, for the overlay of the layers.
constexpr const char* kLayerModules = "/extensions/modules";
// The root image is mounted here, too, if the root is an overlay: an installation copies it from
// its device (machined/disk/installer/system-installation.h).
constexpr const char* kRootImageMount = "/run/root-image";

// The kernel takes the folders of all layers in one page of options.
constexpr unsigned kMostLayers = 100;

constexpr size_t kDigestDigits = 64;
struct RootLayer {
  const char* digest;  // kDigestDigits digits, not terminated
  const char* name;    // terminated by zero
};
// Reads the next line of the list, which it splits in place; `rest` is then the text after it.
// Returns false at the end of the list, and sets `wrong` if the line is not a layer.
bool nextLayer(char*& rest, RootLayer& layer, bool& wrong);

// SHA-256 (FIPS 180-4). Process 1 links no library that has it.
class LayerDigest {
 public:
  void add(const uint8_t* bytes, size_t size);
  // Writes the digits in lower case. Called once, as the last method.
  void finish(char (&digits)[kDigestDigits + 1]);

 private:
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t block[64] = {};
  uint64_t total = 0;

  void compress(const uint8_t* bytes);
};
// Computes the digest of a file. Returns 0, or the errno of the failed read.
int digestOfFile(int fd, char (&digits)[kDigestDigits + 1]);

// Makes /root the root with all layers of the list, read-only. Stops with the name of the layer
// that is damaged or that cannot be mounted.
void mountLayers(const Console& console);

// Mounts a squashfs file on a folder, which it makes. Stops if it cannot.
void mountImageFile(const Console& console, const char* file, const char* folder);
// Loads the modules of a list; does nothing if the file does not exist.
void loadListedModules(const Console& console, const char* list);
// Reports the failed step with errno, and stays or reboots (haltWithError()).
[[noreturn]] void stopInitramfs(const Console& console, const char* what, const char* object = "");

}  // namespace talos::process1
