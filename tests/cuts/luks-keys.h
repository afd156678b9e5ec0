// Tries passphrases on the LUKS2 volume that a cut leaves, with Debian's cryptsetup on a copy. A
// passphrase is tried once with the same header: deriving a key takes long.
#pragma once

#include <map>
#include <string>

#include "machined/disk/encryption/encryption-settings.h"

namespace talos::cuts {

class LuksKeys {
 public:
  // Reads the partition of this name, as it is on the image at each call. Copies are made in
  // `folder`.
  LuksKeys(std::string image, std::string label, std::string folder)
      : image(std::move(image)), label(std::move(label)), folder(std::move(folder)) {}

  bool opens(const std::string& passphrase);
  bool opensWithOneOf(const machined::VolumeSettings& settings);
  size_t tried() const { return known.size(); }  // headers, with a key each

 private:
  std::string image, label, folder;
  std::map<std::pair<size_t, std::string>, bool> known;
};

}  // namespace talos::cuts
