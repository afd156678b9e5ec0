// machine.logging: receivers of logs.

#include <algorithm>
#include <set>
#include <string>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"
#include "common/tls/pki.h"

namespace talos::config {
namespace {

constexpr auto kOtlpHint = "use http:// or https://, for example https://otel.example.org:4318"_kj;
constexpr auto kAddressHint = "for example tls://logs.example.org:6514"_kj;
constexpr auto kSizeHint = "use 1MiB to 4GiB, for example 64MiB"_kj;
constexpr auto kTagHint =
    "use 1 to 32 letters, digits, -, _ and ., beginning with a letter, for example rack"_kj;
constexpr auto kHeaderHint = "for example {Authorization: Bearer 0123456789}"_kj;
constexpr size_t kMostTags = 16, kLongestTag = 32, kLongestTagValue = 256;
constexpr size_t kMostHeaders = 16, kLongestHeader = 64, kLongestHeaderValue = 4096;

// Headers that a request has already, or that would change how it is read.
constexpr kj::StringPtr kOwnHeaders[] = {
    "host"_kj,       "user-agent"_kj,        "content-type"_kj, "content-length"_kj,
    "connection"_kj, "content-encoding"_kj,  "keep-alive"_kj,   "expect"_kj,
    "te"_kj,         "transfer-encoding"_kj, "trailer"_kj,      "upgrade"_kj};

// Fields of a line that a tag would hide.
constexpr kj::StringPtr kFields[] = {"msg"_kj,   "clock"_kj,    "facility"_kj, "seq"_kj,
                                     "event"_kj, "priority"_kj, "talos-"_kj};

bool isFieldOfLines(kj::StringPtr name) {
  for (auto field : kFields) {
    if (name == field || (field.endsWith("-") && name.startsWith(field))) return true;
  }
  return false;
}

// Attributes of OTLP that a tag would be a second time.
bool isAttributeOfLines(kj::StringPtr name) {
  return name == "service.name" || name == "service.namespace" || name == "host.name" ||
         name.startsWith("talos.");
}

bool isTagName(kj::StringPtr name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (name.size() == 0 || name.size() > kLongestTag || !letter(name[0])) return false;
  for (char c : name) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

void checkLogTags(Report& report, kj::StringPtr path, capnp::List<Tag>::Reader tags, bool otlp) {
  if (tags.size() > kMostTags) {
    report.error(path, kj::str("there are ", tags.size(), " tags"),
                 kj::str("use at most ", kMostTags));
  }
  for (auto tag : tags) {
    auto at = keyPath(path, tag.getKey());
    if (!isTagName(tag.getKey())) {
      report.error(at, kj::str("\"", tag.getKey(), "\" is not a valid name of a tag"), kTagHint);
    } else if (otlp ? isAttributeOfLines(tag.getKey()) : isFieldOfLines(tag.getKey())) {
      report.error(at, kj::str("a line has a field \"", tag.getKey(), "\" already"),
                   "use another name");
    }
    if (tag.getValue().size() > kLongestTagValue) {
      report.error(at, kj::str("the value is longer than ", kLongestTagValue, " bytes"));
    }
  }
}

bool isPath(kj::StringPtr text) {
  for (char c : text) {
    if (!isAlphanumeric(c) && "-._~/%!$&'()*+,;=:@"_kj.findFirst(c) == nullptr) return false;
  }
  return true;
}

// Returns the rest after host and port; "" for a lone slash.
kj::StringPtr behindAddress(kj::StringPtr endpoint, const Endpoint& url) {
  auto rest = endpoint.slice(url.scheme.size() + 3);
  size_t end = 0;
  while (end < rest.size() && rest[end] != '/' && rest[end] != '?' && rest[end] != '#') ++end;
  rest = rest.slice(end);
  return rest == "/" ? ""_kj : rest;
}

bool isEventSink(kj::StringPtr scheme) {
  return scheme == kEventSinkPrefix.slice(0, kEventSinkPrefix.size() - "://"_kj.size());
}

// Returns the scheme; nullptr if the endpoint is not an address.
kj::Maybe<kj::String> checkReceiver(Report& report, kj::StringPtr at, kj::StringPtr endpoint) {
  auto path = kj::str(at, ".endpoint");
  if (endpoint.size() == 0) {
    if (report.isRead(at)) report.error(at, kj::str("there is no endpoint"), kAddressHint);
    return nullptr;
  }
  auto parsed = parseEndpoint(endpoint);
  auto& url = parsed.value;
  if (parsed.problem.size() > 0) {
    report.error(path, kj::mv(parsed.problem), kAddressHint);
    return nullptr;
  }
  bool http = url.scheme == "http" || url.scheme == "https";
  auto rest = behindAddress(endpoint, url);
  if (!http && url.scheme != "tcp" && url.scheme != "udp" && url.scheme != "tls" &&
      !isEventSink(url.scheme)) {
    report.error(path, kj::str("\"", url.scheme, "\" is not a scheme of receivers"),
                 "use tcp://, udp:// or tls://; http:// or https:// of otlp; grpc:// of events");
  } else if (!isHost(url.host)) {
    report.error(path, kj::str("\"", url.host, "\" is neither an IP address nor a DNS name"));
  } else if (url.port == nullptr) {
    report.error(path, kj::str("the port is missing"), http ? kOtlpHint : kAddressHint);
  } else if (!http && rest.size() > 0) {
    report.error(path, kj::str("nothing can follow the port"), kAddressHint);
  } else if (!isPath(rest)) {
    report.error(path, kj::str("\"", rest, "\" is not a valid path"), "use a path without ? and #");
  } else {
    return kj::mv(url.scheme);
  }
  return nullptr;
}

bool isHeaderName(kj::StringPtr name) {
  for (char c : name) {
    if (!isAlphanumeric(c) && c != '-' && c != '_') return false;
  }
  return name.size() > 0 && name.size() <= kLongestHeader;
}

bool isHeaderValue(kj::StringPtr value) {
  for (char c : value) {
    if (c < ' ' || c > '~') return false;
  }
  return value.size() > 0 && value[0] != ' ' && value[value.size() - 1] != ' ';
}

// Says nothing of the values, which are secret.
void checkHeader(Report& report, kj::StringPtr path, Tag::Reader header,
                 std::set<std::string>& names) {
  kj::StringPtr name = header.getKey();
  auto at = keyPath(path, name);
  auto lower = lowerCase(name);
  bool own =
      std::find(std::begin(kOwnHeaders), std::end(kOwnHeaders), lower) != std::end(kOwnHeaders);
  if (!isHeaderName(name)) {
    report.error(at, kj::str("\"", name, "\" is not a valid name of a header"), kHeaderHint);
  } else if (own) {
    report.error(at, kj::str("logd sets this header itself"), "remove it");
  } else if (!names.insert(lower.cStr()).second) {
    report.error(at, kj::str("the header is there twice, in another case"));
  } else if (header.getValue().size() > kLongestHeaderValue) {
    report.error(at, kj::str("the value is longer than ", kLongestHeaderValue, " bytes"));
  } else if (report.isRead(at) && !isHeaderValue(header.getValue())) {
    report.error(at, kj::str("not a valid value of a header"),
                 "use printable ASCII without spaces at its ends");
  }
}

void checkHeaders(Report& report, kj::StringPtr at, LogDestination::Reader destination) {
  auto path = kj::str(at, ".headers");
  auto headers = destination.getHeaders();
  if (headers.size() == 0) return;
  if (destination.getFormat() != LogFormat::OTLP) {
    report.error(path, kj::str("only requests of otlp have headers"), "remove it");
    return;
  }
  if (headers.size() > kMostHeaders) {
    report.error(path, kj::str("there are ", headers.size(), " headers"),
                 kj::str("use at most ", kMostHeaders));
  }
  std::set<std::string> names;
  for (auto header : headers) checkHeader(report, path, header, names);
  if (destination.getEndpoint().startsWith("http:")) {
    report.warn(path, kj::str("over http they are not encrypted"), "use https");
  }
}

void checkFormat(Report& report, kj::StringPtr at, LogFormat format, kj::StringPtr scheme) {
  bool http = scheme == "http" || scheme == "https";
  if (http && format != LogFormat::OTLP) {
    report.error(kj::str(at, ".endpoint"), kj::str("over ", scheme, " only otlp is sent"),
                 "add format: otlp, or use tcp://, udp:// or tls://");
  } else if (!http && format == LogFormat::OTLP) {
    report.error(kj::str(at, ".format"), kj::str("otlp is not sent over ", scheme), kOtlpHint);
  }
}

// Such a receiver gets events as messages of Talos, and nothing else.
void checkEventSink(Report& report, kj::StringPtr at, LogDestination::Reader destination) {
  auto streams = destination.getStreams();
  auto path = kj::str(at, ".streams");
  bool given = report.has(path);
  if (streams.size() != 1 || streams[0] != LogStream::EVENTS) {
    if (!given || report.isWhollyRead(path)) {
      report.error(given ? kj::mv(path) : kj::str(at, ".endpoint"),
                   kj::str("over grpc only events are sent"), "use streams: [events]");
    }
  }
  for (auto key : {".format", ".extraTags"}) {
    auto unused = kj::str(at, key);
    if (report.isRead(unused)) {
      report.error(unused, kj::str("over grpc events are sent as messages of Talos"), "remove it");
    }
  }
}

void checkReceiversCa(Report& report, kj::StringPtr at, capnp::Data::Reader ca, bool tls) {
  if (ca.size() == 0) return;
  auto path = kj::str(at, ".ca");
  if (!tls) {
    report.error(path, kj::str("only a receiver of tls:// or https:// is checked with it"),
                 "remove it, or use tls:// or https://");
  } else {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::inspect(kj::str(ca.asChars())); })) {
      report.error(path, messageOf(*e), "use the base64 of certificates in PEM");
    }
  }
}

void checkDestination(Report& report, kj::StringPtr at, LogDestination::Reader destination) {
  auto format = destination.getFormat();
  KJ_IF_MAYBE (scheme, checkReceiver(report, at, destination.getEndpoint())) {
    checkReceiversCa(report, at, destination.getCa(), *scheme == "tls" || *scheme == "https");
    auto path = kj::str(at, ".format");
    if (isEventSink(*scheme)) {
      checkEventSink(report, at, destination);
    } else if (!report.has(path) || report.isRead(path)) {
      checkFormat(report, at, format, *scheme);
    }
  }
  checkHeaders(report, at, destination);
  if (destination.getCompression() != LogCompression::NONE && format != LogFormat::OTLP) {
    report.error(kj::str(at, ".compression"), kj::str("only requests of otlp are compressed"),
                 "remove it");
  }
  checkLogTags(report, kj::str(at, ".extraTags"), destination.getExtraTags(),
               format == LogFormat::OTLP);
  std::set<LogStream> streams;
  size_t i = 0;
  for (auto stream : destination.getStreams()) {
    auto path = kj::str(at, ".streams[", i++, "]");
    if (report.isRead(path) && !streams.insert(stream).second) {
      report.error(path, kj::str("the stream is there twice"));
    }
  }
  auto size = destination.getBufferSize();
  if (size.size() == 0) return;
  auto bytes = parseSize(size).orDefault(0);
  if (bytes < kLeastLogBuffer || bytes > kMostLogBuffer) {
    report.error(kj::str(at, ".bufferSize"), kj::str("\"", size, "\" is not a valid size"),
                 kSizeHint);
  }
}

}  // namespace

void checkLogging(Report& report, Logging::Reader logging) {
  constexpr auto kPath = "machine.logging.destinations"_kj;
  auto destinations = logging.getDestinations();
  if (destinations.size() > kMostLogDestinations) {
    // Those of documents are more than an earlier release counted.
    report.laterError(kPath, kj::str("there are ", destinations.size(), " destinations"),
                      kj::str("use at most ", kMostLogDestinations));
  }
  std::set<std::string> endpoints;
  size_t i = 0;
  for (auto destination : destinations) {
    auto at = kj::str(kPath, "[", i++, "]");
    checkDestination(report, at, destination);
    auto endpoint = destination.getEndpoint();
    if (endpoint.size() > 0 && !endpoints.insert(endpoint.cStr()).second) {
      report.error(kj::str(at, ".endpoint"),
                   kj::str("another destination has the endpoint \"", endpoint, "\""),
                   "put all streams of a receiver into one destination");
    }
  }
}

}  // namespace talos::config
