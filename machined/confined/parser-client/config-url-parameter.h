// The kernel parameters with the location of the machine config, talos.config and talos.config.ca,
// and URLs. Pure.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/kernel/kernel-arguments.h"

namespace talos::machined {

struct HttpSource {
  bool secure = false;
  kj::String host;  // a name or an address, without brackets
  uint16_t port = 80;
  kj::String authority;  // for the Host header
  kj::String target;     // path and query, as it goes on the wire
  kj::String shown;      // for logs: without the query, which may hold secrets

  enum class Method { kGet, kPut, kPost };
  struct Header {
    kj::String name, value;
  };
  Method method = Method::kGet;
  kj::Vector<Header> headers;
  kj::String body;
  // The answer of a metadata service: it may be short or empty, it may be binary, and a redirect is
  // an error, since the headers hold a token.
  bool metadata = false;
  bool lowPort = false;  // the server answers only clients whose port is below 1024
};
struct FileSource {
  kj::String path;
  kj::String shown;
};
struct VolumeSource {
  kj::String label;
};
struct GuestInfoSource {};  // of VMware
using Source = kj::OneOf<HttpSource, FileSource, VolumeSource, GuestInfoSource>;

// The values of ${uuid}, ${serial}, ${mac} and ${hostname} in the values of a query. Empty: not
// known.
struct UrlVariables {
  kj::String uuid, serial, mac, hostname;
};
// None: the parameter is absent, empty or `none`. Throws InvalidArgument saying what would be
// right, Unavailable naming a variable in it that is not known. An empty value of the query key
// `uuid` is ${uuid}. Variables are written in capitals or not; their values are percent-encoded.
kj::Maybe<Source> configSource(const KernelArguments& arguments, const UrlVariables& variables);

// The place of an http or https URL, whose fragment is left out. InvalidArgument.
HttpSource httpUrl(kj::StringPtr text);

// Where a server sends us on: `location` as its answer has it, absolute or relative. Throws
// InvalidArgument when it is no http or https URL, or leads from https to http.
HttpSource redirected(const HttpSource& from, kj::StringPtr location);

// The authorities that talos.config.ca gives (it may be repeated; base64 of a certificate in DER,
// or of PEM text with some), as PEM. None: the parameter is absent. Throws InvalidArgument.
kj::Maybe<kj::String> configAuthorities(const KernelArguments& arguments);

}  // namespace talos::machined
