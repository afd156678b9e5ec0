// Keeps the backup of one volume's header while work is done on the volume, and does not let a
// header be opened that the node did not write. Such a header, and a damaged one, is replaced by
// the backup if the backup certainly belongs to this volume
// (machined/disk/luks/luks-header-backup.h); otherwise the volume is refused. If the backup is
// damaged, the header is opened and the damage reported: rotten bits in a file must not cost a good
// volume. The backup of an empty volume is removed, unless the volume was made before: then it was
// emptied by accident, and gets its header back.
//
// It is a Luks for that volume. Before the first change of the header through it, the backup is
// marked; finish() makes a new backup, and only then is a removed key gone for good. After a cut in
// between, the header counts as changed by the node itself, and the next finish() makes the backup.
// Before finish(), backupMeanwhile() is called whenever boots begin to rely on keys that differ
// from those in the backup. So the keys that a boot has can open the backup at each moment.
//
// Without a file, nothing is kept or compared: for STATE, which holds the backups, and while STATE
// is not mounted or not encrypted.
#pragma once

#include "machined/disk/encryption/open-encrypted-volume.h"

namespace talos::machined {

class HeaderGuard final : public Luks {
 public:
  HeaderGuard(Luks& luks, kj::String device, kj::Maybe<kj::String> file)
      : luks(luks), device(kj::mv(device)), file(kj::mv(file)) {}

  // Checks the header before the volume is opened. Returns a message if a header was replaced or
  // cannot be compared. FailedPrecondition as described above.
  enum class IfEmpty { kIsNew, kWasMade };
  kj::Promise<kj::Maybe<kj::String>> check(const VolumeSettings& settings,
                                           IfEmpty ifEmpty = IfEmpty::kIsNew);
  kj::Promise<void> backupMeanwhile();
  // Called after the last change. If it rejects, the mark stays.
  kj::Promise<void> finish();

  kj::Promise<Found> inspect(kj::StringPtr device) override { return luks.inspect(device); }
  kj::Promise<void> format(kj::StringPtr device, const VolumeSettings& settings) override;
  kj::Promise<kj::Maybe<Opened>> open(kj::StringPtr device, kj::StringPtr mapping,
                                      const VolumeSettings& settings) override {
    return luks.open(device, mapping, settings);
  }
  kj::Promise<kj::Array<bool>> test(kj::StringPtr device,
                                    kj::ArrayPtr<const VolumeKey> keys) override {
    return luks.test(device, keys);
  }
  kj::Promise<void> add(kj::StringPtr device, At key, At by) override;
  kj::Promise<void> remove(kj::StringPtr device, unsigned slot, At keeping) override;
  kj::Promise<void> settle(kj::StringPtr device) override;
  kj::Promise<void> close(kj::StringPtr mapping) override { return luks.close(mapping); }
  kj::Promise<Comparison> compare(kj::StringPtr device, kj::StringPtr file) override {
    return luks.compare(device, file);
  }
  kj::Promise<void> mark(kj::StringPtr device, kj::StringPtr file) override {
    return luks.mark(device, file);
  }
  kj::Promise<void> backup(kj::StringPtr device, kj::StringPtr file, Change change) override {
    return luks.backup(device, file, change);
  }
  kj::Promise<void> restore(kj::StringPtr device, kj::StringPtr file,
                            const VolumeSettings& settings) override {
    return luks.restore(device, file, settings);
  }
  kj::Promise<void> forget(kj::StringPtr file) override { return luks.forget(file); }
  kj::Promise<kj::String> seal(const VolumeKey& key, kj::ArrayPtr<const kj::byte> secret) override {
    return luks.seal(key, secret);
  }
  kj::Promise<Unsealed> unseal(const VolumeKey& key, kj::StringPtr userData) override {
    return luks.unseal(key, userData);
  }

 private:
  Luks& luks;
  kj::String device;
  kj::Maybe<kj::String> file;
  bool marked = false, missing = false;

  kj::Promise<void> beforeChange();
};

}  // namespace talos::machined
