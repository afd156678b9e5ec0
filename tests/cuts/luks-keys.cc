#include "tests/cuts/luks-keys.h"

#include <fstream>

#include "common/disk/empty-partition.h"
#include "tests/cuts/image.h"
#include "tests/harness/process.h"

namespace talos::cuts {
namespace {

constexpr double kTimeout = 600;  // of one derivation, beside emulated machines
// Size of the header, and of the data after it that cryptsetup requires.
constexpr uint64_t kTried = kEmptyHead + (1u << 20);

}  // namespace

bool LuksKeys::opens(const std::string& passphrase) {
  auto volume = part(image, label);
  volume.size = kTried;
  auto [it, isNew] = known.try_emplace({contentKey(image, volume), passphrase}, false);
  if (!isNew) return it->second;
  PartCopy copy(image, volume, folder);
  auto path = folder + "/passphrase";
  std::ofstream(path, std::ios::binary) << passphrase;
  auto said = harness::run(
      {"/usr/sbin/cryptsetup", "open", "--test-passphrase", "--key-file", path, copy.path()},
      kTimeout);
  return it->second = said.status == 0;
}

bool LuksKeys::opensWithOneOf(const machined::VolumeSettings& settings) {
  for (auto& key : settings.keys) {
    auto command = key.passphrase.asChars();
    if (opens(std::string(command.begin(), command.size()))) return true;
  }
  return false;
}

}  // namespace talos::cuts
