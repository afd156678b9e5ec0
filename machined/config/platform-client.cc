#include "machined/config/platform-client.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/text/ascii.h"
#include "machined/platforms/nocloud.h"

namespace talos::machined {
namespace {

// The timeout for a volume that may exist: the drivers of disks have been loaded already.
constexpr auto kVolumeAlone = 1 * kj::SECONDS;
// The timeout for a volume that is the only possible source; drives appear late.
constexpr auto kLateVolume = 20 * kj::SECONDS;
// The timeout for a disc that may exist: its drive takes longer than a disk.
constexpr auto kDiscAlone = 5 * kj::SECONDS;

using platforms::Place, platforms::Platform;
using platforms::Request;

// Returns the text of a token: a line, or the content of the JSON list ["…"].
kj::String tokenOf(kj::ArrayPtr<const char> answer, bool list) {
  kj::Vector<char> token;
  for (char c : answer) {
    bool around = c == '\r' || c == '\n' || (list && (c == '[' || c == ']' || c == '"'));
    if (around) continue;
    if (c <= ' ' || c > '~') {
      fail(ErrorKind::kUnavailable, "the token that the server gave is not a line of text");
    }
    token.add(c);
  }
  if (token.empty()) fail(ErrorKind::kUnavailable, "the server gave an empty token");
  return kj::heapString(token.begin(), token.size());
}

// Returns true if VMware's metadata states at least one of these facts.
bool stateAnything(const KnownFacts& facts) {
  auto metadata = facts.get().getMetadata();
  return metadata.getInstanceId().size() > 0 || metadata.getHostname().size() > 0 ||
         facts.get().getNetwork().getInterfaces().size() > 0;
}

// Returns a file's path: the service's path without its leading slash.
kj::String fileOf(const Request& request) {
  auto path = request.target;
  return kj::str(path.startsWith("/") ? path.slice(1) : path);
}

}  // namespace

PlatformClient::PlatformClient(const Platform& platform, kj::StringPtr serial,
                               FetchDependencies& fetch, Volumes& volumes)
    : platform(platform), fetch(fetch), volumes(volumes), server(kj::str(platform.server)) {
  if (&platform != &platforms::kNocloud) return;
  auto seed = platforms::nocloudSeed(serial);
  serverProblem = platforms::serverProblem(seed);
  server = kj::mv(seed.server);
}

void PlatformClient::requireServer() const {
  KJ_IF_MAYBE (error, serverProblem) fail(ErrorKind::kInvalidArgument, *error);
}

kj::String PlatformClient::shown() const {
  switch (platform.place) {
    case Place::kDisc:
      return kj::str("the disc with ", platform.config.target, " (", platform.title, ")");
    case Place::kGuestInfo:
      return kj::str("the guest information (", platform.title, ")");
    case Place::kServer:
      break;
  }
  auto place = hasServer() ? kj::str(server) : kj::str("the volume ", platform.volume);
  return kj::str(place, " (", platform.title, ")");
}

kj::Array<kj::String> PlatformClient::metadataAddresses() const {
  kj::Vector<kj::String> addresses;
  for (auto address : platform.metadata) addresses.add(kj::str(address));
  if (&platform == &platforms::kNocloud && hasServer() && serverProblem == nullptr) {
    KJ_IF_MAYBE (ip, Ip::parse(httpUrl(kj::str(server)).host)) addresses.add(ip->toString());
  }
  return addresses.releaseAsArray();
}

HttpSource PlatformClient::placeOf(kj::StringPtr server, kj::StringPtr target,
                                   kj::ArrayPtr<const platforms::Header> headers) const {
  auto source = httpUrl(kj::str(server, target));
  source.metadata = true;
  source.lowPort = platform.lowPort;
  for (auto& header : headers) {
    source.headers.add(HttpSource::Header{kj::str(header.name), kj::str(header.value)});
  }
  return source;
}

HttpSource PlatformClient::place(kj::StringPtr target) const {
  return placeOf(server, target, platform.headers);
}

// Names the request in the error.
kj::Promise<kj::Array<char>> PlatformClient::answerOf(const HttpSource& source) {
  co_return co_await fetchOnce(fetch, source, kOneFetch)
      .catch_([&source](kj::Exception&& e) -> kj::Array<char> {
        fail(kindOf(e), kj::str(source.shown, ": ", messageOf(e)));
      });
}

kj::Promise<void> PlatformClient::getToken() {
  if (platform.token == nullptr || tokenless || token.size() > 0) co_return;
  auto& rules = *platform.token;
  auto source = place(rules.target);
  source.method = HttpSource::Method::kPut;
  source.headers.add(
      HttpSource::Header{kj::str(rules.lifetime.name), kj::str(rules.lifetime.value)});
  kj::Maybe<kj::Exception> failure;
  kj::Array<char> answer;
  co_await fetchOnce(fetch, source, kOneFetch)
      .then([&](kj::Array<char> a) { answer = kj::mv(a); },
            [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_DEFER(zeroize(answer));
  KJ_IF_MAYBE (e, failure) {
    auto kind = kindOf(*e);
    bool without = kind == ErrorKind::kNotFound || kind == ErrorKind::kPermissionDenied ||
                   kind == ErrorKind::kUnimplemented;
    if (!rules.optional || !without) {
      fail(ErrorKind::kUnavailable, kj::str(source.shown, ": ", messageOf(*e)));
    }
    tokenless = true;
    co_return;
  }
  token = tokenOf(answer, rules.list);
}

kj::Promise<PlatformClient::Body> PlatformClient::once(kj::StringPtr target) {
  co_await getToken();
  auto source = place(target);
  if (token.size() > 0) {
    source.headers.add(HttpSource::Header{kj::str(platform.token->header), kj::str(token)});
  }
  kj::Maybe<kj::Exception> failure;
  Body body;
  co_await answerOf(source).then(
      [&](kj::Array<char> answer) {
        if (trimmed(answer).size() > 0) body = kj::mv(answer);
      },
      [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) != ErrorKind::kNotFound) kj::throwFatalException(kj::cp(*e));
  }
  co_return kj::mv(body);
}

// Requests a new token and retries once if the server refuses its earlier token.
kj::Promise<PlatformClient::Body> PlatformClient::askAt(kj::StringPtr target) {
  bool old = token.size() > 0;
  kj::Maybe<kj::Exception> failure;
  Body body;
  co_await once(target).then([&](Body b) { body = kj::mv(b); },
                             [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    if (!old || kindOf(*e) != ErrorKind::kPermissionDenied) kj::throwFatalException(kj::cp(*e));
    token = kj::String();
    co_return co_await once(target);
  }
  co_return kj::mv(body);
}

kj::Promise<PlatformClient::Body> PlatformClient::ask(const Request& request) {
  if (request.olderTarget.size() == 0) co_return co_await askAt(request.target);
  kj::Maybe<kj::Exception> failure;
  Body body;
  co_await askAt(request.target)
      .then([&](Body b) { body = kj::mv(b); }, [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) != ErrorKind::kInvalidArgument) kj::throwFatalException(kj::cp(*e));
    co_return co_await askAt(request.olderTarget);
  }
  co_return kj::mv(body);
}

kj::Promise<kj::Maybe<VolumeFiles>> PlatformClient::fromVolume(kj::Array<kj::String> names,
                                                               kj::Duration timeout) {
  auto read = volumes.read(platform.volume, kj::mv(names), kMostConfigBytes, timeout);
  co_return co_await read.catch_([this](kj::Exception&& e) -> kj::Maybe<VolumeFiles> {
    fail(ErrorKind::kUnavailable, kj::str("volume ", platform.volume, ": ", messageOf(e)));
  });
}

kj::Promise<ConfigSearch> PlatformClient::decoded(kj::Array<char> content, kj::String from) {
  auto text = co_await fetch.foreign.userData(platform.encoding, kj::mv(content))
                  .catch_([&from](kj::Exception&& e) -> kj::Maybe<kj::Array<char>> {
                    fail(ErrorKind::kUnavailable, kj::str(from, ": ", messageOf(e)));
                  });
  KJ_IF_MAYBE (found, text) co_return FoundConfig{kj::mv(*found), kj::mv(from)};
  co_return NoConfig{kj::str(from, " (", platform.title,
                             ") has no machine config; it is empty, or for another system")};
}

// Returns NoConfig if there is no volume, or if it has no config, and a service may have it.
kj::Promise<ConfigSearch> PlatformClient::configOfVolume(kj::Duration limit) {
  auto timeout = hasServer() ? kj::min(limit, kVolumeAlone) : limit;
  auto name = fileOf(platform.config);
  auto volume = co_await fromVolume(kj::arr(kj::str(name)), timeout);
  KJ_IF_MAYBE (files, volume) {
    KJ_IF_MAYBE (content, files->files[0]) {
      co_return co_await decoded(
          kj::mv(*content), kj::str("volume ", platform.volume, " (", files->device, "): ", name));
    }
    co_return NoConfig{
        kj::str("volume ", platform.volume, " (", files->device, ") has no file ", name)};
  }
  if (!hasServer()) {
    fail(ErrorKind::kUnavailable,
         kj::str("volume ", platform.volume, ": no such volume found within ",
                 timeout / kj::SECONDS, " s"));
  }
  co_return NoConfig{kj::str("there is no volume ", platform.volume)};
}

// Reads the file with the config. Returns nullptr if no disc has the file.
kj::Promise<kj::Maybe<VolumeFiles>> PlatformClient::readDisc(kj::Duration timeout) {
  auto name = fileOf(platform.config);
  auto read = volumes.readDisc(kj::str(name), kMostConfigBytes, timeout);
  co_return co_await read.catch_([&name](kj::Exception&& e) -> kj::Maybe<VolumeFiles> {
    fail(ErrorKind::kUnavailable, kj::str("the disc with ", name, ": ", messageOf(e)));
  });
}

// Returns NoConfig if no disc has the file, or if the file has no config.
kj::Promise<ConfigSearch> PlatformClient::configOfDisc(kj::Duration timeout) {
  auto disc = co_await readDisc(timeout);
  KJ_IF_MAYBE (files, disc) {
    KJ_IF_MAYBE (content, files->files[0]) {
      co_return co_await decoded(kj::mv(*content),
                                 kj::str(files->device, ": ", fileOf(platform.config)));
    }
  }
  co_return NoConfig{kj::str("no disc has ", fileOf(platform.config), " (", platform.title, ")")};
}

// Reads the variables; if the hypervisor gives none, or none to this machine, reads a disc.
// Variables that make no sense are an error, even if a disc exists.
kj::Promise<ConfigSearch> PlatformClient::configOfHypervisor(kj::Duration limit) {
  kj::Maybe<kj::Exception> failure;
  kj::Maybe<kj::Array<char>> text;
  co_await fetch.foreign.guestConfig().then([&](kj::Maybe<kj::Array<char>> t) { text = kj::mv(t); },
                                            [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (found, text) co_return FoundConfig{kj::mv(*found), shown()};
  auto give = [&](const kj::Exception& e) {
    fail(ErrorKind::kUnavailable, kj::str(shown(), ": ", messageOf(e)));
  };
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) == ErrorKind::kInvalidArgument) give(*e);
  }
  auto disc = co_await configOfDisc(kj::min(limit, kDiscAlone));
  if (disc.is<FoundConfig>()) co_return kj::mv(disc);
  KJ_IF_MAYBE (e, failure) give(*e);
  co_return NoConfig{kj::str(shown(), " has no machine config, and ", disc.get<NoConfig>().where)};
}

kj::Promise<ConfigSearch> PlatformClient::config(kj::Duration limit) {
  requireServer();
  if (platform.place == Place::kDisc) {
    co_return co_await configOfDisc(kj::min(limit, kLateVolume));
  }
  if (onHypervisor()) co_return co_await configOfHypervisor(limit);
  bool looks = platform.volume.size() > 0 && &platform != &platforms::kNocloud;
  if (!looks) co_return co_await configOfServer(limit);
  auto volume = co_await configOfVolume(limit);
  if (volume.is<FoundConfig>() || !hasServer()) co_return kj::mv(volume);
  auto service = co_await configOfServer(limit);
  KJ_IF_MAYBE (none, service.tryGet<NoConfig>()) {
    none->where = kj::str(none->where, ", and ", volume.get<NoConfig>().where);
  }
  co_return kj::mv(service);
}

kj::Promise<ConfigSearch> PlatformClient::configOfServer(kj::Duration limit) {
  if (!hasServer()) co_return NoConfig{};
  Body body;
  co_await repeatFetch(fetch, limit, "", [&](kj::Duration) {
    return ask(platform.config).then([&](Body b) { body = kj::mv(b); });
  }).catch_([&](kj::Exception&& e) {
    fail(ErrorKind::kUnavailable,
         kj::str("no answer of the platform within ", limit / kj::SECONDS, " s: ", messageOf(e)));
  });
  KJ_IF_MAYBE (content, body) {
    auto from = kj::str(place(platform.config.target).shown);
    co_return co_await decoded(kj::mv(*content), kj::mv(from));
  }
  co_return NoConfig{kj::str(shown(), " has no user data")};
}

// Returns nullptr if there is no volume with facts.
kj::Promise<kj::Maybe<KnownFacts>> PlatformClient::factsOfVolume() {
  if (platform.volume.size() == 0) co_return nullptr;
  auto names = kj::heapArrayBuilder<kj::String>(platform.facts.size() + 1);
  for (auto& request : platform.facts) names.add(fileOf(request));
  names.add(fileOf(platform.config));  // may state the host name
  auto volume = co_await fromVolume(names.finish(), hasServer() ? kVolumeAlone : kLateVolume);
  KJ_IF_MAYBE (found, volume) {
    kj::Vector<PlatformAnswer> answers;
    KJ_DEFER(for (auto& answer : answers) zeroize(answer.body));
    for (auto i : kj::indices(found->files)) {
      auto name = i < platform.facts.size() ? platform.facts[i].name : platform.config.name;
      KJ_IF_MAYBE (content, found->files[i]) answers.add(PlatformAnswer{name, kj::mv(*content)});
    }
    co_return co_await fetch.foreign.facts(platform.name, answers);
  }
  co_return nullptr;
}

// Reads the same places in the same order as for the machine config.
kj::Promise<KnownFacts> PlatformClient::factsOfHypervisor() {
  kj::Maybe<kj::Exception> failure;
  KnownFacts known;
  co_await fetch.foreign.guestFacts().then([&](KnownFacts facts) { known = kj::mv(facts); },
                                           [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) == ErrorKind::kInvalidArgument) kj::throwFatalException(kj::mv(*e));
  } else {
    if (stateAnything(known)) co_return kj::mv(known);
  }
  auto disc = co_await readDisc(kDiscAlone);
  KJ_IF_MAYBE (found, disc) {
    kj::Vector<PlatformAnswer> answers;
    KJ_DEFER(for (auto& answer : answers) zeroize(answer.body));
    KJ_IF_MAYBE (content, found->files[0]) {
      answers.add(PlatformAnswer{platform.config.name, kj::mv(*content)});
    }
    co_return co_await fetch.foreign.facts(platform.name, answers);
  }
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  co_return kj::mv(known);
}

kj::Promise<void> PlatformClient::report() {
  KJ_REQUIRE(expectsReport());
  auto& rules = *platform.report;
  auto goalStatePlace = placeOf(rules.server, rules.goalState, rules.headers);
  auto goalState = co_await answerOf(goalStatePlace);
  auto sent = placeOf(rules.server, rules.health, rules.headers);
  sent.method = HttpSource::Method::kPost;
  sent.body = co_await fetch.foreign.readyReport(goalState).catch_(
      [&goalStatePlace](kj::Exception&& e) -> kj::String {
        fail(kindOf(e), kj::str(goalStatePlace.shown, ": ", messageOf(e)));
      });
  co_await answerOf(sent);
}

kj::Promise<KnownFacts> PlatformClient::facts() {
  requireServer();
  if (onHypervisor()) co_return co_await factsOfHypervisor();
  // Volumes of NoCloud are for machines without a server.
  bool looks = !hasServer() || &platform != &platforms::kNocloud;
  if (looks) {
    KJ_IF_MAYBE (known, co_await factsOfVolume()) co_return kj::mv(*known);
  }
  if (!hasServer()) co_return KnownFacts();
  kj::Vector<PlatformAnswer> answers;
  for (auto& request : platform.facts) {
    KJ_IF_MAYBE (body, co_await ask(request)) {
      answers.add(PlatformAnswer{request.name, kj::mv(*body)});
    } else {
      if (request.required) {
        fail(ErrorKind::kUnavailable,
             kj::str(place(request.target).shown, ": there is nothing, or nothing yet"));
      }
    }
  }
  co_return co_await fetch.foreign.facts(platform.name, answers);
}

}  // namespace talos::machined
