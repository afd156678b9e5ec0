// Reads the image of a disk with the code that a boot uses. Every function throws when the image is
// not valid for this code.
#pragma once

#include <kj/io.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/disk/gpt.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/installer/boot-files.h"

namespace talos::cuts {

struct Part {
  unsigned number;
  uint64_t offset, size;
};

std::string bytesOf(const std::string& image, uint64_t offset, size_t size);

// Return nullptr if there is no valid table, or no such name in it; part() throws.
kj::Maybe<gpt::Table> tableOf(const std::string& image);
kj::Maybe<Part> findPart(const std::string& image, const std::string& name);
Part part(const std::string& image, const std::string& name);

// Returns the value of a tag in META; empty if there is none.
std::string metaValue(const std::string& image, uint32_t tag);

bool isAllZeros(const std::string& image, const Part& part);

// Returns a key of the part's content: equal keys mean that the part need not be checked again.
size_t contentKey(const std::string& image, const Part& part);

// Writes these bytes at this place of an image.
void overwrite(const std::string& image, uint64_t offset, std::string_view bytes);

// Fills the file system of a part, which no machine uses now, with the file `filler` in its top
// folder. `folder` is where this host mounts it meanwhile.
void fillXfs(const std::string& image, const Part& part, const std::string& folder);

// A part of an image as a block device of this host, removed with the object.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& image, uint64_t offset = 0, uint64_t size = 0);
  const std::string& node() const { return path; }

 private:
  std::string path;
  kj::AutoCloseFd fd;
};

// A copy of a part, so that the image stays as it is. Holes stay holes.
class PartCopy {
 public:
  PartCopy(const std::string& image, const Part& part, const std::string& folder);
  ~PartCopy();
  PartCopy(const PartCopy&) = delete;
  const std::string& path() const { return file; }

 private:
  std::string file;
};

// Mounts a copy of the part, as a boot does, so that the journal is replayed. Returns the content
// of the file in its top folder; nullptr if there is no such file.
kj::Maybe<std::string> fileOfXfs(const std::string& image, const Part& part,
                                 const std::string& folder, const char* name);

// Returns a file as the boot loader sees it, which knows no journal; nullptr if it does not find
// it.
kj::Maybe<std::string> bootLoaderFile(const std::string& image, unsigned partition,
                                      const std::string& path, const std::string& folder);

std::string digestOf(const std::string& text);

}  // namespace talos::cuts
