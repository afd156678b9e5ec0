// Interface to the work on an encrypted volume; each call is one step. RealLuks starts
// machined/disk/luks in a new process for each call; tests have a model.
//
// `device` is a partition's node. Errors name it: FailedPrecondition, Unavailable while it is in
// use, DeadlineExceeded. machined/disk/luks/luks-device.h promises the state after a crash in each
// step; dropping the promise of a step ends the step at any of its writes.
#pragma once

#include <kj/async-io.h>

#include "common/base/node-layout.h"
#include "common/disk/sealed-key-names.h"
#include "machined/disk/encryption/encryption-settings.h"
#include "machined/disk/encryption/kms-client.h"
#include "machined/process1/modprobe/kernel-modules.h"
#include "machined/process1/uv-loop.h"
#include "rpc/luks.capnp.h"

namespace talos::machined {

class Luks {
 public:
  virtual ~Luks() noexcept(false) = default;

  using Content = rpc::LuksAnswer::Content;
  // The token of a sealed key.
  struct Token {
    unsigned slot;
    kj::String type, userData;  // from the header, whose author may be anyone
  };
  struct Found {
    Content content = Content::OTHER;
    kj::Vector<unsigned> slots;  // in use
    kj::String problem;          // details on why it must not be opened or formatted; may be empty
    kj::Vector<Token> tokens;
  };
  struct Opened {
    unsigned slot;
    size_t key;  // index
    bool fresh;  // no file system was made in it yet; its first MiB is zeros
  };

  virtual kj::Promise<Found> inspect(kj::StringPtr device) = 0;
  virtual kj::Promise<void> format(kj::StringPtr device, const VolumeSettings& settings) = 0;
  // Opens the volume as /dev/mapper/<mapping> with the first of the settings' keys that fits;
  // nullptr if no key fits. With an empty `mapping`, only finds the key.
  virtual kj::Promise<kj::Maybe<Opened>> open(kj::StringPtr device, kj::StringPtr mapping,
                                              const VolumeSettings& settings) = 0;
  // Returns, for each key, whether it opens its own slot.
  virtual kj::Promise<kj::Array<bool>> test(kj::StringPtr device,
                                            kj::ArrayPtr<const VolumeKey> keys) = 0;
  struct At {
    const VolumeKey& key;
    unsigned slot;
  };
  virtual kj::Promise<void> add(kj::StringPtr device, At key, At by) = 0;
  virtual kj::Promise<void> remove(kj::StringPtr device, unsigned slot, At keeping) = 0;
  virtual kj::Promise<void> settle(kj::StringPtr device) = 0;  // it now has a file system
  virtual kj::Promise<void> close(kj::StringPtr mapping) = 0;

  // The backup of the volume's header in a file (machined/disk/luks/luks-header-backup.h).
  using Comparison = rpc::LuksAnswer::Comparison;
  virtual kj::Promise<Comparison> compare(kj::StringPtr device, kj::StringPtr file) = 0;
  virtual kj::Promise<void> mark(kj::StringPtr device, kj::StringPtr file) = 0;
  enum class Change { kGoesOn, kIsOver };
  virtual kj::Promise<void> backup(kj::StringPtr device, kj::StringPtr file, Change change) = 0;
  virtual kj::Promise<void> restore(kj::StringPtr device, kj::StringPtr file,
                                    const VolumeSettings& settings) = 0;
  virtual kj::Promise<void> forget(kj::StringPtr file) = 0;

  // Seals a secret as the key says, with the machine's TPM (machined/disk/luks/tpm-sealing.h) or a
  // key server (kms-client.h), and returns the UserData of a token.
  virtual kj::Promise<kj::String> seal(const VolumeKey& key,
                                       kj::ArrayPtr<const kj::byte> secret) = 0;
  struct Unsealed {
    kj::Array<kj::byte> secret;
    Sealing sealing;  // what it was sealed to, without the UserData
  };
  virtual kj::Promise<Unsealed> unseal(const VolumeKey& key, kj::StringPtr userData) = 0;
};

Derivation defaultDerivation();  // for this machine

// Limits of the program's time: for a slow disk, and for each key that it derives, which may use up
// to a GiB of memory four times on a slow machine. The CPU time is limited to the same for each
// thread.
constexpr auto kLuksTimeout = 5 * kj::MINUTES, kLuksDerivation = 10 * kj::SECONDS;
// A TPM derives its storage key, loads an object and unseals it in a few seconds; one that hangs
// must not keep a boot from the next key.
struct TpmAccess {
  kj::StringPtr device = kTpmDevice;
  kj::Duration timeout = 20 * kj::SECONDS;
};
kj::Duration timeoutFor(rpc::LuksRequest::Reader request);

// Runs one program at a time, because the derivation of a key may take a quarter of the machine's
// memory. Landlock lets the program open the device of the request, the folder of the backup and
// the files that libcryptsetup needs; no other device and no other file. Only a step that makes or
// removes a mapping may open the nodes of mappings, all of them; only one that seals or unseals a
// key may open the TPM, and it has no other device. Keys of `kms` need no program.
class RealLuks final : public Luks, private kj::TaskSet::ErrorHandler {
 public:
  RealLuks(kj::AsyncIoContext& io, UvLoop& uv, OpenModules modules, Kms& kms,
           Derivation derivation = defaultDerivation(), kj::StringPtr confine = kConfine,
           kj::StringPtr program = kLuks, TpmAccess tpm = {})
      : io(io),
        uv(uv),
        modules(kj::mv(modules)),
        kms(kms),
        derivation(derivation),
        confine(confine),
        program(program),
        tpm(tpm),
        reaping(*this) {}

  kj::Promise<Found> inspect(kj::StringPtr device) override;
  kj::Promise<void> format(kj::StringPtr device, const VolumeSettings& settings) override;
  kj::Promise<kj::Maybe<Opened>> open(kj::StringPtr device, kj::StringPtr mapping,
                                      const VolumeSettings& settings) override;
  kj::Promise<kj::Array<bool>> test(kj::StringPtr device,
                                    kj::ArrayPtr<const VolumeKey> keys) override;
  kj::Promise<void> add(kj::StringPtr device, At key, At by) override;
  kj::Promise<void> remove(kj::StringPtr device, unsigned slot, At keeping) override;
  kj::Promise<void> settle(kj::StringPtr device) override;
  kj::Promise<void> close(kj::StringPtr mapping) override;
  kj::Promise<Comparison> compare(kj::StringPtr device, kj::StringPtr file) override;
  kj::Promise<void> mark(kj::StringPtr device, kj::StringPtr file) override;
  kj::Promise<void> backup(kj::StringPtr device, kj::StringPtr file, Change change) override;
  kj::Promise<void> restore(kj::StringPtr device, kj::StringPtr file,
                            const VolumeSettings& settings) override;
  kj::Promise<void> forget(kj::StringPtr file) override;
  kj::Promise<kj::String> seal(const VolumeKey& key, kj::ArrayPtr<const kj::byte> secret) override;
  kj::Promise<Unsealed> unseal(const VolumeKey& key, kj::StringPtr userData) override;

 private:
  class Answer;
  kj::AsyncIoContext& io;
  UvLoop& uv;
  OpenModules modules;
  Kms& kms;
  Derivation derivation;
  kj::StringPtr confine, program;
  TpmAccess tpm;
  kj::TaskSet reaping;
  kj::ForkedPromise<void> last = kj::Promise<void>(kj::READY_NOW).fork();

  // `fill` is called before this returns.
  kj::Promise<kj::Own<Answer>> ask(kj::FunctionParam<void(rpc::LuksRequest::Builder)> fill);
  kj::Promise<kj::Own<Answer>> inTurn(kj::Promise<void> before, kj::Array<capnp::word> request,
                                      kj::Own<kj::PromiseFulfiller<void>> done);
  kj::Promise<kj::Own<Answer>> once(kj::ArrayPtr<const capnp::word> request,
                                    kj::Vector<kj::String> files);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
