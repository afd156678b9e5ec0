// For tests: volumes that are not on a disk.
#pragma once

#include <kj/map.h>

#include <string>
#include <vector>

#include "machined/disk/volumes/volume-search.h"

namespace talos::machined {

// The files of volumes, by their labels; records the labels of the searches.
class TestVolumes final : public Volumes {
 public:
  kj::HashMap<kj::String, kj::HashMap<kj::String, kj::String>> volumes;
  kj::Maybe<kj::Exception> broken;
  std::vector<std::string> looked;

  void file(kj::StringPtr label, kj::StringPtr name, kj::StringPtr text) {
    volumes.findOrCreate(label, [&]() { return decltype(volumes)::Entry{kj::str(label), {}}; })
        .insert(kj::str(name), kj::str(text));
  }
  void remove(kj::StringPtr label) { volumes.erase(label); }
  kj::Promise<kj::Vector<Volume>> look() override { return kj::Vector<Volume>(); }
  kj::Promise<kj::Vector<Volume>> lookIntoOpen() override { return kj::Vector<Volume>(); }
  kj::Promise<kj::Maybe<VolumeFiles>> read(kj::StringPtr label, kj::Array<kj::String> names, size_t,
                                           kj::Duration timeout) override {
    looked.push_back(kj::str(label, " ", timeout / kj::SECONDS, " s").cStr());
    KJ_IF_MAYBE (e, broken) return kj::cp(*e);
    KJ_IF_MAYBE (volume, volumes.find(label)) return kj::Maybe<VolumeFiles>(in(*volume, names));
    return kj::Maybe<VolumeFiles>(nullptr);
  }
  // Each of the volumes is a disc.
  kj::Promise<kj::Maybe<VolumeFiles>> readDisc(kj::String name, size_t,
                                               kj::Duration timeout) override {
    looked.push_back(kj::str("disc with ", name, " ", timeout / kj::SECONDS, " s").cStr());
    KJ_IF_MAYBE (e, broken) return kj::cp(*e);
    auto names = kj::arr(kj::mv(name));
    for (auto& volume : volumes) {
      if (volume.value.find(names[0]) == nullptr) continue;
      return kj::Maybe<VolumeFiles>(in(volume.value, names));
    }
    return kj::Maybe<VolumeFiles>(nullptr);
  }

 private:
  static VolumeFiles in(kj::HashMap<kj::String, kj::String>& volume,
                        kj::ArrayPtr<const kj::String> names) {
    VolumeFiles result;
    result.device = kj::str("/dev/sr0");
    result.files = KJ_MAP(name, names)->kj::Maybe<kj::Array<char>> {
      return volume.find(name).map([](kj::String& s) { return kj::heapArray(s.asArray()); });
    };
    return result;
  }
};

}  // namespace talos::machined
