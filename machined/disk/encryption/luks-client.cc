#include "machined/disk/encryption/luks-client.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/base/within.h"
#include "common/kernel/library-folders.h"
#include "common/memory/secret-array.h"
#include "common/memory/zeroize.h"
#include "machined/confined/frames/frame-stream.h"
#include "machined/confined/parser-client/confined-process.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "machined/disk/encryption/open-encrypted-volume.h"

namespace talos::machined {
namespace {

constexpr size_t kMostAnswerWords = 8192;
// Its messages may quote the header, whose author may be anyone.
constexpr size_t kMostText = 1024;

// Files that libcryptsetup and the device mapper open besides the device itself.
constexpr kj::StringPtr kLocks = "/run/cryptsetup"_kj;  // locks; its folder is listed to find it
constexpr kj::StringPtr kReads[] = {"/dev/random"_kj, "/dev/urandom"_kj, "/proc"_kj, "/sys"_kj,
                                    "/etc/ssl/openssl.cnf"_kj};
constexpr kj::StringPtr kMapper = "/dev/mapper"_kj;

bool exists(kj::StringPtr path) {
  return access(path.cStr(), F_OK) == 0;
}

// Makes the folder before the program starts, because the program may write to no other folder.
void makeBackupFolder(kj::StringPtr file) {
  auto folder = folderOf(file);
  if (mkdir(folder.cStr(), 0700) != 0) {
    KJ_REQUIRE(errno == EEXIST, "cannot make", folder, strerror(errno));
    return;
  }
  syncFolder(folderOf(folder));
}

// The devices and files that a request names.
struct Named {
  kj::String device, backup;  // empty: none
  bool begun = false;         // make the folder of the backup if it is missing
  bool maps = false;          // a mapping is made or removed
};
// Returns the device below a mapping: to close the mapping, libcryptsetup reads the header there.
kj::String deviceBelow(kj::StringPtr mapping) {
  auto end = mappingOf("");
  if (!mapping.endsWith(end)) return kj::String();
  return kj::str("/dev/", mapping.slice(0, mapping.size() - end.size()));
}

Named namedIn(rpc::LuksRequest::Reader request) {
  if (request.isClose()) {
    return {.device = deviceBelow(request.getClose()), .backup = kj::String(), .maps = true};
  }
  auto device = kj::str(request.getDevice());
  auto named = [&](kj::StringPtr file, bool begun) {
    return Named{kj::mv(device), kj::str(file), begun};
  };
  switch (request.which()) {
    case rpc::LuksRequest::COMPARE:
      return named(request.getCompare(), false);
    case rpc::LuksRequest::MARK:
      return named(request.getMark(), true);
    case rpc::LuksRequest::BACKUP:
      return named(request.getBackup().getFile(), true);
    case rpc::LuksRequest::RESTORE:
      return named(request.getRestore().getFile(), false);
    case rpc::LuksRequest::FORGET:
      return named(request.getForget(), false);
    default:
      break;
  }
  auto other = named(nullptr, false);
  other.maps = request.isOpen() && request.getOpen().getMapping().size() > 0;
  return other;
}

// Returns the paths that the program may open, as arguments for the wrapper, which fails if one is
// missing. Blocking.
kj::Vector<kj::String> filesFor(const Named& named) {
  kj::Vector<kj::String> arguments;
  auto allow = [&](kj::StringPtr how, kj::StringPtr path) {
    if (path.size() > 0 && exists(path)) arguments.add(kj::str("--landlock-", how, "=", path));
  };
  if (mkdir(kLocks.cStr(), 0700) != 0 && errno != EEXIST) KJ_FAIL_SYSCALL("mkdir", errno, kLocks);
  allow("list", folderOf(kLocks));
  allow("write", kLocks);
  for (auto path : kLibraryFolders) allow("libraries", path);
  for (auto path : kReads) allow("read", path);
  // Also allows reading the open volumes there; the volume that is being opened has no node yet.
  if (named.maps) allow("device", kMapper);
  allow("device", named.device);
  if (named.begun) makeBackupFolder(named.backup);
  // Comparisons write, too: they complete a restoration that was cut before its last step.
  if (named.backup.size() > 0) allow("write", folderOf(named.backup));
  return arguments;
}

kj::Vector<kj::String> commandOf(kj::StringPtr confine, kj::StringPtr program,
                                 kj::ArrayPtr<const kj::String> files, kj::Duration timeout,
                                 unsigned threads) {
  kj::Vector<kj::String> argv;
  argv.add(kj::str(confine));
  argv.add(kj::str("--uid=0"));
  // For mappings and their nodes, and for keys that are not swapped out.
  argv.add(kj::str("--capabilities=sys_admin,ipc_lock,mknod,chown"));
  argv.add(kj::str("--seccomp=volumes"));
  for (auto& file : files) argv.add(kj::str(file));
  // Deriving a key takes a quarter of the memory: if memory runs out, this process is killed.
  argv.add(kj::str("--oom-score=1000"));
  argv.add(kj::str("--rlimit=core=0"));
  argv.add(kj::str("--rlimit=cpu=", timeout / kj::SECONDS * threads));
  argv.add(kj::str("--lifetime=", getpid()));
  argv.add(kj::str("--output=none"));
  argv.add(kj::str("--"));
  argv.add(kj::str(program));
  return argv;
}

void fill(rpc::LuksKey::Builder out, unsigned slot, const VolumeKey& key) {
  out.setSlot(slot);
  out.setPassphrase(key.passphrase);
  KJ_IF_MAYBE (sealing, key.sealing) {
    if (sealing->userData.size() == 0) return;
    out.setTokenType(tokenTypeOf(key.kind));
    out.setUserData(sealing->userData);
  }
}
void fill(capnp::List<rpc::LuksKey>::Builder out, kj::ArrayPtr<const VolumeKey> keys) {
  for (unsigned i = 0; i < keys.size(); ++i) fill(out[i], keys[i].slot, keys[i]);
}
void fill(rpc::LuksDerivation::Builder out, const Derivation& derivation) {
  out.setMemory(derivation.memory);
  out.setPasses(derivation.passes);
  out.setThreads(derivation.threads);
}

kj::Promise<kj::Array<capnp::word>> converse(kj::AsyncIoStream& stream,
                                             kj::ArrayPtr<const capnp::word> request) {
  co_await writeFrame(stream, request);
  co_return co_await readFrame(stream, kMostAnswerWords);
}

ErrorKind kindOf(rpc::LuksAnswer::Kind kind) {
  switch (kind) {
    case rpc::LuksAnswer::Kind::BUSY:
      return ErrorKind::kUnavailable;
    case rpc::LuksAnswer::Kind::PRECONDITION:
      return ErrorKind::kFailedPrecondition;
    case rpc::LuksAnswer::Kind::INTERNAL:
      break;
  }
  return ErrorKind::kInternal;
}

// An unknown value counts as other content.
Luks::Content knownContent(Luks::Content content) {
  return content <= Luks::Content::OTHER ? content : Luks::Content::OTHER;
}

}  // namespace

Derivation defaultDerivation() {
  auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  return derivationFor(pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)),
                       static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)));
}

// Allows for a key that does not fit its own slot, and is then tried at all others.
kj::Duration timeoutFor(rpc::LuksRequest::Reader request) {
  auto derivations = [&]() -> unsigned {
    switch (request.which()) {
      case rpc::LuksRequest::FORMAT:
        return request.getFormat().getKeys().size();
      case rpc::LuksRequest::OPEN:
        return request.getOpen().getKeys().size() * kKeySlots;
      case rpc::LuksRequest::RESTORE:
        return request.getRestore().getKeys().size() * kKeySlots;
      case rpc::LuksRequest::TEST:
        return request.getTest().size();
      case rpc::LuksRequest::ADD:
        return kKeySlots + 1;  // the existing key may be in any slot
      case rpc::LuksRequest::REMOVE:
        return 1;
      default:
        return 0;
    }
  }();
  return kLuksTimeout + derivations * kLuksDerivation;
}

class RealLuks::Answer {
 public:
  explicit Answer(kj::Array<capnp::word> words)
      : words(kj::mv(words)), message(this->words, readerOptions(this->words.size())) {}
  rpc::LuksAnswer::Reader get() { return message.getRoot<rpc::LuksAnswer>(); }

 private:
  kj::Array<capnp::word> words;
  capnp::FlatArrayMessageReader message;
};

void RealLuks::taskFailed(kj::Exception&& e) {
  KJ_LOG(ERROR, "cannot reap the program of encrypted volumes", e);
}

kj::Promise<kj::Own<RealLuks::Answer>> RealLuks::ask(
    kj::FunctionParam<void(rpc::LuksRequest::Builder)> fill) {
  SecretMessage message;
  fill(message.initRoot<rpc::LuksRequest>());
  auto done = kj::newPromiseAndFulfiller<void>();
  auto before = last.addBranch();
  // A call that is dropped before its turn does not end its predecessor's turn.
  last = kj::joinPromises(kj::arr(last.addBranch(), kj::mv(done.promise))).fork();
  return inTurn(kj::mv(before), frameOf(message), kj::mv(done.fulfiller));
}

kj::Promise<kj::Own<RealLuks::Answer>> RealLuks::inTurn(kj::Promise<void> before,
                                                        kj::Array<capnp::word> request,
                                                        kj::Own<kj::PromiseFulfiller<void>> done) {
  // Runs however the call ends, also if its caller has gone away.
  KJ_DEFER({
    zeroize(request.asBytes());
    done->fulfill();
  });
  co_await before;
  // dm_mod must be loaded before the first mapping exists; this system has no udev to load it.
  capnp::FlatArrayMessageReader message(request, readerOptions(request.size()));
  auto preparing = uv.blocking([this, named = namedIn(message.getRoot<rpc::LuksRequest>())]() {
    modules().load("dm_mod");
    return filesFor(named);
  });
  // It syncs a folder of STATE, which may be on a disk that does not answer.
  auto files = co_await within(io.provider->getTimer(), kLuksTimeout, kj::mv(preparing),
                               kj::str("preparing for an encrypted volume timed out after ",
                                       kLuksTimeout / kj::SECONDS, " s"));
  auto answer = co_await once(request, kj::mv(files));
  if (answer->get().isFailed()) {
    auto failed = answer->get().getFailed();
    fail(kindOf(failed.getKind()), oneLine(failed.getMessage(), kMostText));
  }
  co_return kj::mv(answer);
}

kj::Promise<kj::Own<RealLuks::Answer>> RealLuks::once(kj::ArrayPtr<const capnp::word> request,
                                                      kj::Vector<kj::String> files) {
  capnp::FlatArrayMessageReader message(request, readerOptions(request.size()));
  auto wanted = message.getRoot<rpc::LuksRequest>();
  bool ofTpm = wanted.isSeal() || wanted.isUnseal();
  auto timeout = ofTpm ? tpm.timeout : timeoutFor(wanted);
  auto child =
      kj::heap<ConfinedChild>(io, commandOf(confine, program, files, timeout, derivation.threads));
  auto& stream = child->stream();
  kj::Maybe<kj::Own<ConfinedChild>> left = kj::mv(child);
  KJ_DEFER({
    KJ_IF_MAYBE (c, left) reaping.add(ConfinedChild::end(kj::mv(*c)).ignoreResult());
  });
  kj::Maybe<kj::Own<Answer>> answer;
  co_await within(io.provider->getTimer(), timeout, converse(stream, request),
                  kj::str(ofTpm ? "the TPM" : "an encrypted volume", " timed out after ",
                          timeout / kj::SECONDS, " s"))
      .then([&](kj::Array<capnp::word> words) { answer = kj::heap<Answer>(kj::mv(words)); },
            [](kj::Exception&& e) {
              if (e.getType() != kj::Exception::Type::DISCONNECTED) {
                kj::throwFatalException(kj::mv(e));
              }
            });
  KJ_IF_MAYBE (a, answer) co_return kj::mv(*a);
  auto ending = ConfinedChild::end(kj::mv(KJ_ASSERT_NONNULL(left)));
  left = nullptr;
  fail(ErrorKind::kInternal,
       kj::str("the program that handles encrypted volumes gave no answer: ", co_await ending));
}

kj::Promise<Luks::Found> RealLuks::inspect(kj::StringPtr device) {
  auto answer = co_await ask([&](rpc::LuksRequest::Builder out) {
    out.setDevice(device);
    out.setInspect();
  });
  KJ_REQUIRE(answer->get().isFound(), "not a valid answer");
  auto in = answer->get().getFound();
  Found found;
  found.content = knownContent(in.getContent());
  for (auto slot : in.getSlots()) {
    KJ_REQUIRE(slot < kKeySlots, "not a slot");
    found.slots.add(slot);
  }
  found.problem = oneLine(in.getProblem(), kMostText);
  for (auto token : in.getTokens()) {
    KJ_REQUIRE(token.getSlot() < kKeySlots, "not a slot");
    found.tokens.add(
        Token{token.getSlot(), kj::str(token.getType()), kj::str(token.getUserData())});
  }
  co_return kj::mv(found);
}

kj::Promise<void> RealLuks::format(kj::StringPtr device, const VolumeSettings& settings) {
  return ask([&](rpc::LuksRequest::Builder out) {
           out.setDevice(device);
           auto format = out.initFormat();
           fill(format.initKeys(settings.keys.size()), settings.keys);
           format.setKeySize(settings.keySize);
           format.setSectorSize(settings.sectorSize);
           format.setLabel(settings.label);
           fill(format.initDerivation(), derivation);
         })
      .ignoreResult();
}

kj::Promise<kj::Maybe<Luks::Opened>> RealLuks::open(kj::StringPtr device, kj::StringPtr mapping,
                                                    const VolumeSettings& settings) {
  auto count = settings.keys.size();
  auto answer = co_await ask([&](rpc::LuksRequest::Builder out) {
    out.setDevice(device);
    auto open = out.initOpen();
    fill(open.initKeys(count), settings.keys);
    open.setMapping(mapping);
    open.setNoReadWorkqueue(settings.noReadWorkqueue);
    open.setNoWriteWorkqueue(settings.noWriteWorkqueue);
    open.setSameCpu(settings.sameCpu);
  });
  if (answer->get().isRejected()) co_return nullptr;
  KJ_REQUIRE(answer->get().isOpened(), "not a valid answer");
  auto in = answer->get().getOpened();
  KJ_REQUIRE(in.getSlot() < kKeySlots && in.getKey() < count, "not a valid answer");
  co_return Opened{in.getSlot(), in.getKey(), in.getFresh()};
}

kj::Promise<kj::Array<bool>> RealLuks::test(kj::StringPtr device,
                                            kj::ArrayPtr<const VolumeKey> keys) {
  auto count = keys.size();
  auto answer = co_await ask([&](rpc::LuksRequest::Builder out) {
    out.setDevice(device);
    fill(out.initTest(keys.size()), keys);
  });
  KJ_REQUIRE(answer->get().isTested() && answer->get().getTested().size() == count,
             "not a valid answer");
  co_return KJ_MAP(fits, answer->get().getTested()) {
    return fits;
  };
}

kj::Promise<void> RealLuks::add(kj::StringPtr device, At key, At by) {
  return ask([&](rpc::LuksRequest::Builder out) {
           out.setDevice(device);
           auto add = out.initAdd();
           fill(add.initKey(), key.slot, key.key);
           fill(add.initBy(), by.slot, by.key);
           fill(add.initDerivation(), derivation);
         })
      .ignoreResult();
}

kj::Promise<void> RealLuks::remove(kj::StringPtr device, unsigned slot, At keeping) {
  return ask([&](rpc::LuksRequest::Builder out) {
           out.setDevice(device);
           auto remove = out.initRemove();
           remove.setSlot(slot);
           fill(remove.initKeeping(), keeping.slot, keeping.key);
         })
      .ignoreResult();
}

kj::Promise<void> RealLuks::settle(kj::StringPtr device) {
  return ask([&](rpc::LuksRequest::Builder out) {
           out.setDevice(device);
           out.setSettle();
         })
      .ignoreResult();
}

kj::Promise<void> RealLuks::close(kj::StringPtr mapping) {
  return ask([&](rpc::LuksRequest::Builder out) { out.setClose(mapping); }).ignoreResult();
}

kj::Promise<Luks::Comparison> RealLuks::compare(kj::StringPtr device, kj::StringPtr file) {
  auto answer = co_await ask([&](rpc::LuksRequest::Builder out) {
    out.setDevice(device);
    out.setCompare(file);
  });
  KJ_REQUIRE(answer->get().isCompared(), "not a valid answer");
  auto compared = answer->get().getCompared();
  co_return compared <= Comparison::DAMAGED ? compared : Comparison::NONE;
}

kj::Promise<void> RealLuks::mark(kj::StringPtr device, kj::StringPtr file) {
  return ask([&](rpc::LuksRequest::Builder out) {
           out.setDevice(device);
           out.setMark(file);
         })
      .ignoreResult();
}

kj::Promise<void> RealLuks::backup(kj::StringPtr device, kj::StringPtr file, Change change) {
  return ask([&](rpc::LuksRequest::Builder out) {
           out.setDevice(device);
           auto backup = out.initBackup();
           backup.setFile(file);
           backup.setLast(change == Change::kIsOver);
         })
      .ignoreResult();
}

kj::Promise<void> RealLuks::restore(kj::StringPtr device, kj::StringPtr file,
                                    const VolumeSettings& settings) {
  return ask([&](rpc::LuksRequest::Builder out) {
           out.setDevice(device);
           auto restore = out.initRestore();
           restore.setFile(file);
           fill(restore.initKeys(settings.keys.size()), settings.keys);
         })
      .ignoreResult();
}

kj::Promise<void> RealLuks::forget(kj::StringPtr file) {
  return ask([&](rpc::LuksRequest::Builder out) { out.setForget(file); }).ignoreResult();
}

kj::Promise<kj::String> RealLuks::seal(const VolumeKey& key, kj::ArrayPtr<const kj::byte> secret) {
  auto& sealing = KJ_REQUIRE_NONNULL(key.sealing);
  if (key.kind == KeyKind::kKms) {
    co_return co_await kms.seal({sealing.endpoint, sealing.beforeConfig}, secret);
  }
  auto answer = co_await ask([&](rpc::LuksRequest::Builder out) {
    out.setDevice(tpm.device);
    auto seal = out.initSeal();
    seal.setSecret(secret);
    auto pcrs = seal.initPcrs(sealing.pcrs.size());
    for (auto i : kj::indices(sealing.pcrs)) pcrs.set(i, sealing.pcrs[i]);
    seal.setSecureBoot(sealing.secureBoot);
  });
  KJ_REQUIRE(answer->get().isSealed(), "not a valid answer");
  co_return kj::str(answer->get().getSealed());
}

kj::Promise<Luks::Unsealed> RealLuks::unseal(const VolumeKey& key, kj::StringPtr userData) {
  if (key.kind == KeyKind::kKms) {
    Unsealed opened;
    opened.sealing = KJ_REQUIRE_NONNULL(key.sealing).clone();
    opened.secret =
        co_await kms.unseal({opened.sealing.endpoint, opened.sealing.beforeConfig}, userData);
    co_return kj::mv(opened);
  }
  auto answer = co_await ask([&](rpc::LuksRequest::Builder out) {
    out.setDevice(tpm.device);
    out.setUnseal(userData);
  });
  KJ_REQUIRE(answer->get().isUnsealed(), "not a valid answer");
  auto in = answer->get().getUnsealed();
  KJ_DEFER(zeroizeReceived(in.getSecret()));
  Unsealed result;
  result.secret = secretArray(in.getSecret());
  result.sealing.pcrs = KJ_MAP(pcr, in.getPcrs())->unsigned {
    return pcr;
  };
  co_return kj::mv(result);
}

}  // namespace talos::machined
