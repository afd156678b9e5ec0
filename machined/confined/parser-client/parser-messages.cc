#include "machined/confined/parser-client/parser-messages.h"

#include <capnp/dynamic.h>
#include <kj/encoding.h>
#include <string.h>

#include "common/base/error.h"
#include "common/extension/extension-names.h"
#include "common/memory/secret-array.h"
#include "common/net/ip.h"
#include "common/text/ascii.h"
#include "common/text/foreign-text.h"
#include "common/yaml/yaml-codec.h"

namespace talos::machined {
namespace {

constexpr size_t kMostMessage = 4096;  // of a problem or an error: a long path and a long value
// Number of errors and warnings, and the few that the config's own checks add.
constexpr size_t kMostLines = codec::kMaxProblems + 16;
constexpr size_t kMostPlace = 8192;     // of a URL: limit of common web servers
constexpr size_t kMostPartition = 512;  // of a partition and its name
constexpr size_t kMostLabel = 64;       // of a volume: 32 characters of ISO 9660 in UTF-8
constexpr size_t kMostName = 253;       // of a host

[[noreturn]] void damaged(kj::StringPtr what) {
  fail(ErrorKind::kInternal, kj::str("invalid answer of the parser: ", what));
}

[[noreturn]] void unexpected(rpc::ParseAnswer::Reader answer) {
  if (!answer.isFailed()) damaged("it answers another question");
  auto failed = answer.getFailed();
  auto kind = static_cast<ErrorKind>(failed.getKind());
  if (kind < ErrorKind::kInternal || kind > ErrorKind::kUnimplemented) kind = ErrorKind::kInternal;
  fail(kind, oneLine(failed.getMessage(), kMostMessage));
}

kj::Vector<kj::String> linesOf(capnp::List<capnp::Text>::Reader list) {
  kj::Vector<kj::String> lines;
  if (list.size() > kMostLines) damaged("too many problems");
  for (auto line : list) lines.add(oneLine(line, kMostMessage));
  return lines;
}

rpc::ParseRequest::Mode modeOf(config::Mode mode) {
  switch (mode) {
    case config::Mode::kMetal:
      return rpc::ParseRequest::Mode::METAL;
    case config::Mode::kCloud:
      return rpc::ParseRequest::Mode::CLOUD;
    case config::Mode::kContainer:
      return rpc::ParseRequest::Mode::CONTAINER;
  }
  KJ_UNREACHABLE;
}

rpc::HttpMethod methodOf(HttpSource::Method method) {
  switch (method) {
    case HttpSource::Method::kGet:
      return rpc::HttpMethod::GET;
    case HttpSource::Method::kPut:
      return rpc::HttpMethod::PUT;
    case HttpSource::Method::kPost:
      return rpc::HttpMethod::POST;
  }
  KJ_UNREACHABLE;
}

// Accepts names and addresses alike: other texts fail when they are looked up.
bool isHost(kj::StringPtr text) {
  if (text.size() == 0 || text.size() > kMostName) return false;
  for (char c : text) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '-' || c == '.' || c == '_' || c == ':';
    if (!good) return false;
  }
  return true;
}

bool isTarget(kj::StringPtr text) {
  if (!text.startsWith("/") || text.size() > kMostPlace) return false;
  for (unsigned char c : text) {
    if (c <= ' ' || c == 0x7f) return false;
  }
  return true;
}

// Makes every text in the struct one printable line.
void makeLines(capnp::DynamicStruct::Builder out);
void makeLines(capnp::DynamicValue::Builder value, kj::FunctionParam<void(kj::StringPtr)> set) {
  switch (value.getType()) {
    case capnp::DynamicValue::TEXT:
      return set(oneLine(value.as<capnp::Text>().asReader(), kMostMessage));
    case capnp::DynamicValue::STRUCT:
      return makeLines(value.as<capnp::DynamicStruct>());
    case capnp::DynamicValue::LIST: {
      auto list = value.as<capnp::DynamicList>();
      for (auto i : kj::zeroTo(list.size())) {
        makeLines(list[i], [&](kj::StringPtr text) { list.set(i, capnp::Text::Reader(text)); });
      }
      return;
    }
    default:
      return;
  }
}
void makeLines(capnp::DynamicStruct::Builder out) {
  for (auto field : out.getSchema().getNonUnionFields()) {
    if (!out.has(field)) continue;
    makeLines(out.get(field),
              [&](kj::StringPtr text) { out.set(field, capnp::Text::Reader(text)); });
  }
}

ntp::Sample sampleOf(rpc::ParseAnswer::Sample::Reader from) {
  ntp::Sample sample;
  sample.offset = from.getOffset() * kj::NANOSECONDS;
  sample.delay = from.getDelay() * kj::NANOSECONDS;
  sample.rootDistance = from.getRootDistance() * kj::NANOSECONDS;
  sample.stratum = from.getStratum();
  sample.leap = from.getLeap();
  constexpr auto kNone = 0 * kj::NANOSECONDS;
  // More than the 68 years that an exchange can give, and no date leaves its range.
  constexpr auto kMostOffset = int64_t{100 * 365} * kj::DAYS;
  // Each is checked alone first, because a sum could overflow.
  bool good = sample.offset >= kNone - kMostOffset && sample.offset <= kMostOffset &&
              sample.delay >= kNone && sample.delay <= 2 * ntp::kMaxError &&
              sample.rootDistance >= kNone && sample.rootDistance <= ntp::kMaxError &&
              sample.error() <= ntp::kMaxError && sample.stratum >= 1 && sample.stratum <= 15 &&
              sample.leap < ntp::kUnsynchronised;
  if (!good) damaged("an impossible time");
  return sample;
}

ntp::KissOfDeath kissOf(rpc::ParseAnswer::Kiss::Reader from) {
  using Action = ntp::KissOfDeath::Action;
  if (from.getAction() > static_cast<unsigned>(Action::kNone)) {
    damaged("an unknown action of a kiss-o'-death packet");
  }
  return {static_cast<Action>(from.getAction()), oneLine(from.getCode(), sizeof(uint32_t))};
}

}  // namespace

kj::String oneLine(kj::StringPtr text, size_t most) {
  return fieldText(text, most);
}

void fillConfig(rpc::ParseRequest::Builder out, kj::ArrayPtr<const char> document,
                kj::StringPtr file, ConfigRules rules) {
  auto config = out.initConfig();
  config.setDocument(document.asBytes());
  config.setFile(file);
  config.setMode(modeOf(rules.mode));
  config.setKept(rules.kept);
}

void fillRedact(rpc::ParseRequest::Builder out, kj::ArrayPtr<const char> from,
                kj::ArrayPtr<const char> to) {
  auto redact = out.initRedact();
  redact.setFrom(from.asBytes());
  redact.setTo(to.asBytes());
}

void fillNtp(rpc::ParseRequest::Builder out, const NtpReply& reply) {
  auto ntp = out.initNtp();
  ntp.setReply(reply.bytes);
  ntp.setNonce(reply.nonce);
  ntp.setSent((reply.sent - kj::UNIX_EPOCH) / kj::NANOSECONDS);
  ntp.setElapsed(reply.elapsed / kj::NANOSECONDS);
}

void fillPlace(rpc::HttpPlace::Builder out, const HttpSource& place) {
  out.setSecure(place.secure);
  out.setHost(place.host);
  out.setPort(place.port);
  out.setAuthority(place.authority);
  out.setTarget(place.target);
  out.setShown(place.shown);
  out.setMethod(methodOf(place.method));
  auto headers = out.initHeaders(place.headers.size());
  for (auto i : kj::indices(place.headers)) {
    headers[i].setName(place.headers[i].name);
    headers[i].setValue(place.headers[i].value);
  }
  out.setBody(place.body.asBytes());
  out.setMetadata(place.metadata);
}

void fillHttp(rpc::ParseRequest::Builder out, const HttpSource& place, kj::StringPtr authorities,
              kj::Date now) {
  auto http = out.initHttp();
  fillPlace(http.initPlace(), place);
  http.setAuthorities(authorities);
  http.setNow((now - kj::UNIX_EPOCH) / kj::SECONDS);
}

void fillPieces(rpc::ParseRequest::Builder out, const HttpSource& place, kj::StringPtr authorities,
                kj::Date now, uint64_t from) {
  fillHttp(out, place, authorities, now);
  out.getHttp().setPieces(true);
  out.getHttp().setFrom(from);
}

void fillGenerate(rpc::ParseRequest::Builder out, rpc::GenerateRequest::Reader request,
                  kj::Maybe<config::Config::Reader> own) {
  auto generate = out.initGenerate();
  generate.setRequest(request);
  KJ_IF_MAYBE (config, own) generate.setOwn(*config);
}

CheckedConfig readConfig(rpc::ParseAnswer::Reader answer, kj::ArrayPtr<const char> document) {
  if (!answer.isConfig()) unexpected(answer);
  auto config = answer.getConfig();
  // A message of allowed size may repeat the same content many times.
  if (config.getView().totalSize().wordCount * sizeof(capnp::word) > kMostAnswerBytes) {
    damaged("a config that is too large");
  }
  return {.config = KnownConfig(document, config.getView()),
          .empty = config.getEmpty(),
          .errors = linesOf(config.getErrors()),
          .warnings = linesOf(config.getWarnings())};
}

RedactedConfigs readRedacted(rpc::ParseAnswer::Reader answer, size_t most) {
  if (!answer.isRedacted()) unexpected(answer);
  auto redacted = answer.getRedacted();
  if (redacted.getFrom().size() > most || redacted.getTo().size() > most) {
    damaged("more than was sent");
  }
  return {kj::str(redacted.getFrom()), kj::str(redacted.getTo())};
}

kj::Vector<GeneratedFile> readGenerated(rpc::ParseAnswer::Reader answer) {
  if (!answer.isGenerated()) unexpected(answer);
  constexpr size_t kFiles = 4;  // three configs and a talosconfig
  kj::Vector<GeneratedFile> files;
  if (answer.getGenerated().size() != kFiles) damaged("the wrong number of files");
  for (auto file : answer.getGenerated()) {
    if (file.getContent().size() > kMostConfigBytes) damaged("a config that is too large");
    files.add(GeneratedFile{oneLine(file.getName(), kMostLabel),
                            kj::heapString(file.getContent().asChars())});
  }
  return files;
}

kj::Array<kj::String> readAddresses(rpc::ParseAnswer::Reader answer) {
  if (!answer.isAddresses()) unexpected(answer);
  kj::Vector<kj::String> addresses;
  auto list = answer.getAddresses();
  if (list.size() == 0 || list.size() > kMostAddresses) damaged("the wrong number of addresses");
  for (auto text : list) {
    KJ_IF_MAYBE (address, Ip::parse(text)) {
      addresses.add(address->toString());
    } else {
      damaged("not a valid address");
    }
  }
  return addresses.releaseAsArray();
}

kj::Array<char> readText(rpc::ParseAnswer::Reader answer) {
  if (!answer.isBody()) unexpected(answer);
  auto body = answer.getBody();
  if (body.size() > kMostConfigBytes) damaged("a text that is too large");
  return kj::heapArray(body.asChars());
}

ForeignBytes::OnDevice readSuperblockAnswer(rpc::ParseAnswer::Reader answer) {
  if (!answer.isSuperblock()) unexpected(answer);
  auto found = answer.getSuperblock();
  ForeignBytes::OnDevice result;
  result.lostTable = found.getLostTable();
  if (!found.getFound()) return result;
  if (found.getType() >= kFileSystems) damaged("an unknown file system");
  result.content =
      Superblock{static_cast<FileSystem>(found.getType()), oneLine(found.getLabel(), kMostLabel)};
  return result;
}

namespace {

// Takes the text before the next space off the front of `rest`, and the space.
kj::String nextWord(kj::ArrayPtr<const char>& rest) {
  size_t end = 0;
  while (end < rest.size() && rest[end] != ' ') ++end;
  auto word = kj::heapString(rest.slice(0, end));
  rest = rest.slice(kj::min(end + 1, rest.size()), rest.size());
  return word;
}

// The form is in machined/confined/parser/disk-probe.h.
FoundOnDisk::Place placeOf(kj::StringPtr text) {
  kj::ArrayPtr<const char> rest = text;
  auto number = [&rest]() {
    KJ_IF_MAYBE (value, nextWord(rest).tryParseAs<uint64_t>()) return *value;
    damaged("a partition without its place");
  };
  FoundOnDisk::Place place;
  auto index = number();
  if (index > UINT16_MAX) damaged("a partition with too high a number");
  place.number = static_cast<unsigned>(index);
  place.begin = number();
  place.bytes = number();
  place.id = nextWord(rest);
  if (place.id == "-") place.id = kj::String();
  place.attributes = number();
  place.name = kj::heapString(rest);
  return place;
}

}  // namespace

FoundOnDisk readFoundOnDisk(rpc::ParseAnswer::Reader answer) {
  if (!answer.isDisk()) unexpected(answer);
  auto disk = answer.getDisk();
  if (disk.getPartitions().size() > kMostPartitions || disk.getVolumes().size() > kMostVolumes) {
    damaged("too many partitions or volumes");
  }
  FoundOnDisk found;
  if (disk.getTable().size() > 0) {
    auto text = oneLine(disk.getTable(), kMostLabel);
    kj::ArrayPtr<const char> rest = text;
    found.table = kj::str(nextWord(rest));
    found.tableId = kj::str(rest);
  }
  for (auto text : disk.getPartitions()) {
    auto place = placeOf(oneLine(text, kMostPartition));
    found.partitions.add(place.name.size() > 0 ? kj::str(place.name) : kj::str(place.number));
    found.places.add(kj::mv(place));
  }
  for (auto volume : disk.getVolumes()) {
    if (volume.getType().size() == 0) damaged("a volume of no type");
    found.volumes.add(FoundOnDisk::Volume{oneLine(volume.getType(), kMostLabel),
                                          oneLine(volume.getLabel(), kMostLabel)});
  }
  return found;
}

ntp::Verdict readVerdict(rpc::ParseAnswer::Reader answer) {
  switch (answer.which()) {
    case rpc::ParseAnswer::SAMPLE:
      return sampleOf(answer.getSample());
    case rpc::ParseAnswer::KISS:
      return kissOf(answer.getKiss());
    case rpc::ParseAnswer::REJECTED: {
      auto rejected = answer.getRejected();
      return ntp::Rejected{oneLine(rejected.getError(), kMostMessage), rejected.getForged()};
    }
    default:
      unexpected(answer);
  }
}

HttpSource readPlace(rpc::HttpPlace::Reader place) {
  HttpSource source;
  source.secure = place.getSecure();
  source.host = kj::str(place.getHost());
  source.port = place.getPort();
  source.target = kj::str(place.getTarget());
  if (!isHost(source.host)) damaged("not a valid host");
  if (source.port == 0) damaged("port 0");
  if (!isTarget(source.target)) damaged("not a valid path");
  bool usual = source.port == (source.secure ? 443 : 80);
  source.authority = usual ? hostInUrl(source.host) : hostInUrl(source.host, source.port);
  auto path = source.target.slice(0, strcspn(source.target.cStr(), "?#"));
  source.shown = kj::str(source.secure ? "https://" : "http://", source.authority, path);
  return source;
}

HttpSource readRequest(rpc::HttpPlace::Reader place) {
  auto source = readPlace(place);
  source.method = static_cast<HttpSource::Method>(
      kj::min(unsigned(place.getMethod()), unsigned(HttpSource::Method::kPost)));
  for (auto header : place.getHeaders()) {
    source.headers.add(HttpSource::Header{kj::str(header.getName()), kj::str(header.getValue())});
  }
  source.body = kj::heapString(place.getBody().asChars());
  source.metadata = place.getMetadata();
  return source;
}

HttpAnswer readHttp(rpc::ParseAnswer::Reader answer, const HttpSource& from) {
  if (!answer.isMoved()) return readText(answer);
  auto place = readPlace(answer.getMoved());
  if (from.secure && !place.secure) damaged("from https to http");
  return kj::mv(place);
}

void fillKms(rpc::ParseRequest::Builder out, const KmsCall& call) {
  auto kms = out.initKms();
  kms.setSecure(call.secure);
  kms.setHost(call.host);
  kms.setAuthority(call.authority);
  kms.setAuthorities(call.authorities);
  kms.setNode(call.node);
  kms.setSecret(call.secret);
  kms.setUserData(call.userData);
}

kj::Array<kj::byte> readKms(rpc::ParseAnswer::Reader answer, bool seals) {
  if (!answer.isBody()) unexpected(answer);
  auto body = answer.getBody();
  bool good = seals ? body.size() > 0 && body.size() <= kMostKmsSealed : body.size() == kKmsSecret;
  if (!good) damaged("a key of the wrong size");
  return secretArray(body);
}

void readProgress(rpc::ParseAnswer::Reader answer, HttpProgress& progress) {
  auto doing = answer.getProgress();
  progress.doing = oneLine(doing.getStep(), kMostMessage);
  progress.received = doing.getReceived();
}

kj::Promise<void> takePiece(rpc::ParseAnswer::Reader answer, HttpProgress& progress,
                            HttpPieces& to) {
  switch (answer.which()) {
    case rpc::ParseAnswer::PROGRESS:
      readProgress(answer, progress);
      return kj::READY_NOW;
    case rpc::ParseAnswer::BODY_START:
      to.begins(answer.getBodyStart().getFrom(), answer.getBodyStart().getSize());
      return kj::READY_NOW;
    case rpc::ParseAnswer::PIECE:
      if (answer.getPiece().size() > kMostPieceBytes) damaged("a piece that is too large");
      return to.piece(kj::heapArray(answer.getPiece()));
    default:
      unexpected(answer);
  }
}

kj::Maybe<HttpSource> readPiecesEnd(rpc::ParseAnswer::Reader answer, const HttpSource& from) {
  if (answer.isComplete()) return nullptr;
  if (!answer.isMoved()) unexpected(answer);
  auto place = readPlace(answer.getMoved());
  if (from.secure && !place.secure) damaged("from https to http");
  return kj::mv(place);
}

kj::Vector<ImagePart> readArchive(rpc::ParseAnswer::Reader answer, uint64_t size) {
  if (!answer.isArchive()) unexpected(answer);
  auto list = answer.getArchive();
  auto needed = kj::size(kImageFiles);
  if (list.size() < needed || list.size() > needed + 1) damaged("the wrong number of files");
  kj::Vector<ImagePart> parts;
  for (auto i : kj::zeroTo(list.size())) {
    auto part = list[i];
    auto name = i < needed ? kImageFiles[i] : kConfigKeysFile;
    if (part.getName() != name) damaged("another file");
    if (part.getOffset() > size || part.getSize() > size - part.getOffset()) {
      damaged("a file that is not in the archive");
    }
    parts.add(ImagePart{kj::str(name), part.getOffset(), part.getSize()});
  }
  return parts;
}

bool isSha256(kj::StringPtr digest) {
  constexpr size_t kHexDigits = 64;
  if (!digest.startsWith("sha256:")) return false;
  auto hex = digest.slice(strlen("sha256:"));
  if (hex.size() != kHexDigits) return false;
  return strspn(hex.cStr(), "0123456789abcdef") == kHexDigits;
}

kj::Vector<ImageSignature> readSignatures(rpc::ParseAnswer::Reader answer) {
  if (!answer.isSignatures()) unexpected(answer);
  auto list = answer.getSignatures();
  if (list.size() > kMostImageSignatures) damaged("too many signatures");
  kj::Vector<ImageSignature> signatures;
  for (auto item : list) {
    if (!isSha256(item.getPayload())) damaged("not a valid digest");
    if (item.getSignature().size() > kMostImageSignature) damaged("a signature that is too long");
    signatures.add(ImageSignature{kj::str(item.getPayload()), kj::heapArray(item.getSignature())});
  }
  return signatures;
}

kj::String readSignedImage(rpc::ParseAnswer::Reader answer) {
  if (!answer.isSignedImage()) unexpected(answer);
  if (!isSha256(answer.getSignedImage())) damaged("not a valid digest");
  return kj::str(answer.getSignedImage());
}

void fillFacts(rpc::ParseRequest::Builder out, kj::StringPtr platform,
               kj::ArrayPtr<const PlatformAnswer> answers) {
  auto request = out.initPlatform();
  request.setName(platform);
  auto list = request.initAnswers(answers.size());
  for (auto i : kj::indices(answers)) {
    list[i].setName(answers[i].name);
    list[i].setBody(answers[i].body.asBytes());
  }
}

KnownFacts checkedFacts(rpc::PlatformFacts::Reader facts) {
  if (facts.totalSize().wordCount * sizeof(capnp::word) > kMostFactsBytes) {
    damaged("facts that are too large");
  }
  capnp::MallocMessageBuilder message;
  message.setRoot(facts);
  auto copy = message.getRoot<rpc::PlatformFacts>();
  makeLines(copy);
  for (auto address : copy.asReader().getExternalAddresses()) {
    if (Ip::parse(address) == nullptr) damaged("not a valid address");
  }
  return KnownFacts(copy.asReader());
}

KnownFacts readFacts(rpc::ParseAnswer::Reader answer) {
  if (!answer.isFacts()) unexpected(answer);
  return checkedFacts(answer.getFacts());
}

void fillUserData(rpc::ParseRequest::Builder out, platforms::Encoding encoding,
                  kj::ArrayPtr<const char> content) {
  auto request = out.initUserData();
  request.setEncoding(static_cast<uint16_t>(encoding));
  request.setContent(content.asBytes());
}

kj::Maybe<kj::Array<char>> readUserData(rpc::ParseAnswer::Reader answer) {
  auto text = readText(answer);
  if (text.size() == 0) return nullptr;
  return kj::mv(text);
}

kj::String readReport(rpc::ParseAnswer::Reader answer) {
  if (!answer.isBody()) unexpected(answer);
  auto body = answer.getBody().asChars();
  if (body.size() == 0 || body.size() > kMostReadyReport) damaged("a report of the wrong size");
  return kj::heapString(body);
}

void fillContainerd(rpc::ParseRequest::Builder out, kj::ArrayPtr<const char> system,
                    kj::ArrayPtr<const kj::String> fragments) {
  auto containerd = out.initContainerd();
  containerd.setSystem(system.asBytes());
  auto list = containerd.initFragments(static_cast<unsigned>(fragments.size()));
  for (auto i : kj::indices(fragments)) list.set(i, fragments[i].asBytes());
}

// The files become mounts and files of the node: their names are checked again.
kj::Vector<ExtensionConfig> readExtensionConfigs(rpc::ParseAnswer::Reader answer) {
  if (!answer.isExtensionConfigs()) unexpected(answer);
  auto list = answer.getExtensionConfigs();
  if (list.size() > kMostExtensionConfigs) damaged("too many documents of extensions");
  kj::Vector<ExtensionConfig> configs;
  for (auto from : list) {
    if (!extension::isExtensionName(from.getName())) damaged("not the name of a service");
    ExtensionConfig config;
    config.name = kj::str(from.getName());
    for (auto file : from.getFiles()) {
      auto path = kj::str(file.getMountPath());
      bool good =
          path.startsWith("/") && !path.endsWith("/") && strstr(path.cStr(), "/.") == nullptr;
      if (!good) damaged("not the path of a file");
      config.files.add(ExtensionConfigFile{kj::mv(path), kj::str(file.getContent())});
    }
    for (auto variable : from.getEnvironment()) config.environment.add(kj::str(variable));
    configs.add(kj::mv(config));
  }
  return configs;
}

constexpr size_t kMostCleared = 8;

kj::Array<kj::String> readCleared(rpc::ParseAnswer::Reader answer) {
  if (!answer.isCleared()) unexpected(answer);
  auto names = answer.getCleared();
  if (names.size() > kMostCleared) damaged("too many variables");
  return KJ_MAP(name, names) {
    for (char c : name) {
      bool good = isLower(c) || c == '.';
      if (!good) damaged("not the name of a variable");
    }
    return kj::str(name);
  };
}

}  // namespace talos::machined
