// The names of the headers that a client or a server of HTTP reads and writes beside those that KJ
// knows. A program declares them as the members of a struct, which owns their table:
//
//   struct CacheHeaders : public HttpHeaderNames {
//     kj::HttpHeaderId range = add("Range"), digest = add("Docker-Content-Digest");
//   };
//
// A struct adds all its names before table() is called for the first time, and outlives all that
// uses the table. Not thread-safe.
#pragma once

#include <kj/compat/http.h>
#include <kj/debug.h>

namespace talos {

class HttpHeaderNames {
 public:
  HttpHeaderNames() = default;
  KJ_DISALLOW_COPY_AND_MOVE(HttpHeaderNames);

  const kj::HttpHeaderTable& table() const {
    if (built.get() == nullptr) built = builder.build();
    return *built;
  }

 protected:
  // `name` is a literal, or outlives this object.
  kj::HttpHeaderId add(kj::StringPtr name) {
    KJ_REQUIRE(built.get() == nullptr, "the table of headers is already in use", name);
    return builder.add(name);
  }

 private:
  mutable kj::HttpHeaderTable::Builder builder;
  mutable kj::Own<kj::HttpHeaderTable> built;
};

}  // namespace talos
