// Keeps the backup of one volume's header while work is done on it, and lets nobody open a header
// that is not the one that the node wrote: it is replaced by the backup, if that is certain to be
// this volume's (machined/disk/luks/luks-header-backup.h), or the volume is refused. So is one that
// is damaged. When it is the backup that is damaged, the header is opened and that is reported:
// bits that rot in a file must not cost a volume that is good. Of a volume that is empty there is
// no backup any more.
//
// It is a Luks for that volume: before the first change of the header that goes through it, the
// backup is marked; finish() makes it anew, and only then has a key that was removed gone for good.
// After a cut between these the header counts as changed by the node itself, and the next finish()
// makes the backup. Between these, backupMeanwhile() is called whenever other keys than those of
// the backup begin to be relied on, so that at each moment the backup can be opened by the keys
// that a boot has.
//
// Without a file nothing is kept, and nothing compared: for STATE, where the backups are, and while
// that is not there or not encrypted.
#pragma once

#include "machined/disk/encryption/open-encrypted-volume.h"

namespace talos::machined {

class HeaderGuard final : public Luks {
 public:
  HeaderGuard(Luks& luks, kj::String device, kj::Maybe<kj::String> file)
      : luks(luks), device(kj::mv(device)), file(kj::mv(file)) {}

  // Before it is opened. Returns a message about a header that was replaced or cannot be compared.
  // FailedPrecondition as described above.
  kj::Promise<kj::Maybe<kj::String>> check(const VolumeSettings& settings);
  kj::Promise<void> backupMeanwhile();
  // The changes are over. When it rejects, the mark stays.
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

 private:
  Luks& luks;
  kj::String device;
  kj::Maybe<kj::String> file;
  bool marked = false, missing = false;

  kj::Promise<void> beforeChange();
};

}  // namespace talos::machined
