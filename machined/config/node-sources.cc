#include "machined/config/node-sources.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "common/text/ascii.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/platforms/cloud-config.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kGzipStart = "\x1f\x8b"_kj;
constexpr kj::StringPtr kCidata = "cidata"_kj;
// The timeout for a volume that no parameter names: the drivers of disks have been loaded already.
constexpr auto kUnnamedTimeout = 1 * kj::SECONDS;

[[noreturn]] void unavailable(kj::StringPtr error) {
  fail(ErrorKind::kUnavailable, error);
}

bool startsWith(kj::ArrayPtr<const char> text, kj::StringPtr start) {
  return text.size() >= start.size() && memcmp(text.begin(), start.begin(), start.size()) == 0;
}

// Returns true if the document has the top-level key `machine`, as every machine config has.
bool hasMachineKey(kj::ArrayPtr<const char> text) {
  constexpr kj::StringPtr kMark = "\xef\xbb\xbf"_kj;
  if (startsWith(text, kMark)) text = text.slice(kMark.size(), text.size());
  while (text.size() > 0) {
    for (auto key : {"machine"_kj, "\"machine\""_kj, "'machine'"_kj}) {
      if (!startsWith(text, key)) continue;
      size_t at = key.size();
      while (at < text.size() && text[at] == ' ') ++at;
      if (at < text.size() && text[at] == ':') return true;
    }
    auto* end = static_cast<const char*>(memchr(text.begin(), '\n', text.size()));
    if (end == nullptr) break;
    text = kj::arrayPtr(end + 1, text.end());
  }
  return false;
}

kj::Array<char> readConfigFile(kj::StringPtr path) {
  size_t slash = KJ_ASSERT_NONNULL(path.findLast('/'));
  auto folder = kj::str(path.slice(0, slash), "/");
  int fd = open(folder.cStr(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) unavailable(kj::str("cannot open ", folder, ": ", strerror(errno)));
  kj::AutoCloseFd directory(fd);
  KJ_IF_MAYBE (content, readFileAt(directory, path.slice(slash + 1), kMostConfigBytes)) {
    return kj::mv(*content);
  }
  unavailable("no such file");
}

}  // namespace

NodeConfigSources::NodeConfigSources(Dependencies d)
    : deps(kj::mv(d)),
      fetch{.network = deps.network,
            .timer = deps.timer,
            .clock = deps.clock,
            .random = [this]() { return deps.random(); },
            .say = [this](kj::StringPtr line) { deps.say(line); },
            .resolve = [this](kj::StringPtr host) { return deps.resolve(host); },
            .authorities = [this]() { return authorities(); },
            .foreign = deps.foreign,
            .sockets = deps.sockets} {
  KJ_IF_MAYBE (platform, platforms::called(deps.platform)) {
    client.emplace(*platform, deps.firmware().serial, fetch, deps.volumes);
  }
}

kj::Maybe<kj::Function<kj::Promise<KnownFacts>()>> NodeConfigSources::platformFacts() {
  KJ_IF_MAYBE (c, client) {
    if (c->hasFacts()) return kj::Function<kj::Promise<KnownFacts>()>([c]() { return c->facts(); });
  }
  return nullptr;
}

kj::Array<kj::String> NodeConfigSources::metadataAddresses() const {
  KJ_IF_MAYBE (c, client) return c->metadataAddresses();
  return nullptr;
}

kj::Maybe<kj::Function<kj::Promise<void>()>> NodeConfigSources::platformReport() {
  KJ_IF_MAYBE (c, client) {
    if (c->expectsReport()) return kj::Function<kj::Promise<void>()>([c]() { return c->report(); });
  }
  return nullptr;
}

// Returns the body unpacked and checked; `from` names it in errors.
kj::Promise<FoundConfig> NodeConfigSources::checked(kj::Array<char> body, kj::String from) {
  FoundConfig found;
  found.text = co_await deps.foreign.text(kj::mv(body))
                   .catch_([&from](kj::Exception&& e) -> kj::Array<char> {
                     unavailable(kj::str(from, ": ", messageOf(e)));
                   });
  found.from = kj::mv(from);
  co_return kj::mv(found);
}

kj::Promise<kj::String> NodeConfigSources::authorities() {
  if (trusted == nullptr) {
    auto given = configAuthorities(deps.arguments);
    trusted =
        co_await deps.uv.blocking([given = kj::mv(given), bundle = kj::str(deps.bundle)]() mutable {
          KJ_IF_MAYBE (pem, given) return kj::mv(*pem);
          KJ_IF_MAYBE (pem, tryReadFile(bundle)) return kj::mv(*pem);
          unavailable(kj::str("https needs a trusted CA: there is no ", bundle,
                              "; set kernel parameter talos.config.ca=<base64>"));
        });
  }
  co_return kj::str(KJ_ASSERT_NONNULL(trusted));
}

kj::Promise<FoundConfig> NodeConfigSources::fromServer(HttpSource source, kj::Duration limit) {
  auto shown = kj::str(source.shown);
  // A cached error would repeat at every try.
  trusted = nullptr;
  if (source.secure) co_await authorities();
  FoundConfig found;
  found.text = co_await fetchConfig(fetch, kj::mv(source), limit);
  found.from = kj::mv(shown);
  co_return kj::mv(found);
}

kj::Promise<FoundConfig> NodeConfigSources::fromFile(FileSource source, kj::Duration limit) {
  auto shown = kj::str(source.shown);
  auto read = deps.uv.blocking([path = kj::mv(source.path)]() { return readConfigFile(path); });
  auto late = kj::str("timed out after ", limit / kj::SECONDS, " s");
  auto content = co_await within(deps.timer, limit, kj::mv(read), kj::mv(late))
                     .catch_([&shown](kj::Exception&& e) -> kj::Array<char> {
                       unavailable(kj::str(shown, ": ", messageOf(e)));
                     });
  co_return co_await checked(kj::mv(content), kj::mv(shown));
}

kj::Promise<FoundConfig> NodeConfigSources::fromVolume(kj::String label, kj::Duration limit) {
  auto read = deps.volumes.read(label, kj::arr(kj::str("config.yaml")), kMostConfigBytes, limit);
  auto answer = co_await read.catch_([&label](kj::Exception&& e) -> kj::Maybe<VolumeFiles> {
    unavailable(kj::str("volume ", label, ": ", messageOf(e)));
  });
  KJ_IF_MAYBE (volume, answer) {
    KJ_IF_MAYBE (content, volume->files[0]) {
      co_return co_await checked(kj::mv(*content),
                                 kj::str("volume ", label, " (", volume->device, "): config.yaml"));
    }
    unavailable(kj::str("volume ", label, " (", volume->device, ") has no file config.yaml"));
  }
  unavailable(
      kj::str("volume ", label, ": no such volume found within ", limit / kj::SECONDS, " s"));
}

kj::Promise<ConfigSearch> NodeConfigSources::fromCidata(bool expected, kj::Duration limit) {
  auto timeout = expected ? limit : kj::min(limit, kUnnamedTimeout);
  auto read = deps.volumes.read(kCidata, kj::arr(kj::str("user-data")), kMostConfigBytes, timeout);
  auto answer = co_await read.catch_([](kj::Exception&& e) -> kj::Maybe<VolumeFiles> {
    unavailable(kj::str("volume cidata: ", messageOf(e)));
  });
  KJ_IF_MAYBE (volume, answer) {
    auto name = kj::str("volume cidata (", volume->device, "): user-data");
    KJ_IF_MAYBE (content, volume->files[0]) {
      co_return co_await fromUserData(kj::mv(*content), kj::mv(name));
    }
    unavailable(kj::str(name, " is missing"));
  }
  if (expected) {
    unavailable(kj::str("volume cidata: no such volume found within ", timeout / kj::SECONDS,
                        " s, which platform nocloud needs"));
  }
  co_return NoConfig{};
}

// Reads a volume's files, which may be user data for another system.
kj::Promise<ConfigSearch> NodeConfigSources::fromUserData(kj::Array<char> content,
                                                          kj::String name) {
  if (trimmed(content).size() == 0) co_return NoConfig{kj::str(name, " is empty")};
  auto found = co_await checked(kj::mv(content), kj::mv(name));
  if (hasMachineKey(found.text)) co_return kj::mv(found);
  KJ_DEFER(zeroize(found.text));
  if (platforms::isCloudConfig(found.text)) {
    co_return NoConfig{kj::str(found.from, " is for cloud-init (#cloud-config)")};
  }
  unavailable(kj::str(found.from, " is not a machine config: it has no key \"machine\""));
}

kj::Promise<ConfigSearch> NodeConfigSources::fromEnvironment() {
  constexpr auto kFrom = "environment variable USERDATA"_kj;
  auto data = deps.userData().orDefault(nullptr);
  KJ_DEFER(zeroize(data));
  if (data.size() == 0) {
    co_return NoConfig{kj::str("the launcher of this container gave no USERDATA")};
  }
  auto bytes = kj::decodeBase64(data);
  KJ_DEFER(zeroize(bytes.asChars()));
  if (bytes.hadErrors) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(kFrom, " is not base64; use the base64 of a machine config"));
  }
  auto document = kj::heapArray(bytes.asChars());
  if (startsWith(document, kGzipStart)) {
    co_return co_await checked(kj::mv(document), kj::str(kFrom));
  }
  // Not checked: the checks of a web server's answer detect pages that are not configs.
  FoundConfig found;
  found.text = kj::mv(document);
  found.from = kj::str(kFrom);
  co_return kj::mv(found);
}

void NodeConfigSources::announce(kj::String line) {
  if (line == announced) return;
  deps.say(line);
  announced = kj::mv(line);
}

kj::Promise<kj::Maybe<Source>> NodeConfigSources::parameter(kj::Duration limit) {
  kj::Maybe<Source> source;
  kj::Maybe<kj::Exception> wrong;  // waits for ever
  auto once = [&](kj::Duration) -> kj::Promise<void> {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&] { source = configSource(deps.arguments, deps.variables()); })) {
      if (kindOf(*e) == ErrorKind::kUnavailable) return kj::mv(*e);
      wrong = kj::mv(*e);
    }
    return kj::READY_NOW;
  };
  co_await repeatFetch(fetch, limit, "", once);
  KJ_IF_MAYBE (e, wrong) kj::throwFatalException(kj::mv(*e));
  co_return kj::mv(source);
}

kj::Promise<ConfigSearch> NodeConfigSources::named(Source source, kj::Duration limit) {
  KJ_SWITCH_ONEOF(source) {
    KJ_CASE_ONEOF(server, HttpSource) {
      announce(kj::str("machine config: asking ", server.shown));
      co_return co_await fromServer(kj::mv(server), limit);
    }
    KJ_CASE_ONEOF(file, FileSource) {
      co_return co_await fromFile(kj::mv(file), limit);
    }
    KJ_CASE_ONEOF(volume, VolumeSource) {
      announce(kj::str("machine config: looking for the volume ", volume.label));
      co_return co_await fromVolume(kj::mv(volume.label), limit);
    }
    KJ_CASE_ONEOF(guest, GuestInfoSource) {
      co_return co_await fromGuestInfo(limit);
    }
  }
  KJ_UNREACHABLE;
}

kj::Promise<ConfigSearch> NodeConfigSources::fromGuestInfo(kj::Duration limit) {
  KJ_IF_MAYBE (c, client) {
    if (c->onHypervisor()) co_return co_await fromPlatform(*c, limit);
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("kernel parameter talos.config=guestinfo: platform ", deps.platform,
               " has no guest information of VMware; use talos.platform=vmware with it"));
}

kj::Promise<ConfigSearch> NodeConfigSources::fromPlatform(PlatformClient& platform,
                                                          kj::Duration limit) {
  announce(kj::str("machine config: asking ", platform.shown()));
  co_return co_await platform.config(limit);
}

kj::Maybe<kj::String> NodeConfigSources::platformProblem() {
  return platforms::nameProblem(deps.platform);
}

bool NodeConfigSources::clearable() {
  KJ_IF_MAYBE (c, client) return c->onHypervisor();
  return false;
}

kj::Promise<kj::Array<kj::String>> NodeConfigSources::clear() {
  kj::Array<kj::String> cleared;
  if (!clearable()) co_return kj::mv(cleared);
  kj::Maybe<kj::Exception> failure;
  co_await deps.foreign.clearGuestConfig().then(
      [&](kj::Array<kj::String> names) { cleared = kj::mv(names); },
      [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    // On another hypervisor no process can read the disc.
    if (kindOf(*e) != ErrorKind::kFailedPrecondition) kj::throwFatalException(kj::mv(*e));
  }
  co_return kj::mv(cleared);
}

kj::Promise<ConfigSearch> NodeConfigSources::find(kj::Duration limit) {
  // The kernel's parameters and disks are the host's.
  if (deps.platform == platforms::kContainer) co_return co_await fromEnvironment();
  KJ_IF_MAYBE (source, co_await parameter(limit)) {
    co_return co_await named(kj::mv(*source), limit);
  }
  KJ_IF_MAYBE (error, platformProblem()) fail(ErrorKind::kInvalidArgument, *error);
  // NoCloud is a volume unless the firmware names a server.
  bool volumeAlone = false;
  KJ_IF_MAYBE (c, client) {
    volumeAlone = deps.platform == platforms::kNocloud.name && !c->hasServer();
  }
  auto volume = co_await fromCidata(volumeAlone, limit);
  if (volume.is<FoundConfig>() || volumeAlone) co_return kj::mv(volume);
  kj::StringPtr found = volume.get<NoConfig>().where;
  KJ_IF_MAYBE (c, client) {
    auto answer = co_await fromPlatform(*c, limit);
    KJ_IF_MAYBE (none, answer.tryGet<NoConfig>()) {
      if (found.size() > 0) none->where = kj::str(none->where, ", and ", found);
    }
    co_return kj::mv(answer);
  }
  announceFirmware();
  co_return NoConfig{kj::str("kernel parameter talos.config is missing or \"none\", and ",
                             found.size() > 0 ? found : "no volume has a config"_kj)};
}

void NodeConfigSources::announceFirmware() {
  KJ_IF_MAYBE (platform, platforms::recognized(deps.firmware())) {
    announce(kj::str("the firmware is that of ", platform->title,
                     "; talos.platform=", platform->name, " would ask it for the machine config"));
  }
}

}  // namespace talos::machined
