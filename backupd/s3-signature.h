// Requests to a store with the API of S3 and their signatures: "Signature Calculations for the
// Authorization Header" (AWS Signature Version 4) of the Amazon S3 API Reference.
//
// The bucket is part of the path ("path-style"), which every such store supports. Pure.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::backupd {

struct S3Credentials {
  kj::StringPtr accessKey, secretKey, region;
};

struct S3Request {
  struct Parameter {
    kj::String name, value;
  };
  kj::StringPtr method;  // GET, PUT, DELETE
  kj::StringPtr host;    // as in the header Host
  kj::String path;       // s3Path()
  kj::Vector<Parameter> query = {};
  kj::String payload;  // SHA-256 of the body in hexadecimal; emptyPayload() without one
};

// The values of three headers.
struct S3Signature {
  kj::String date;           // x-amz-date
  kj::String authorization;  // Authorization
  // x-amz-content-sha256 is the request's payload
};

kj::String emptyPayload();
// Returns "/bucket/key" in the URI encoding that is signed; slashes of the key stay.
kj::String s3Path(kj::StringPtr bucket, kj::StringPtr key);
// Returns path and query, as the request line has them.
kj::String s3Target(const S3Request& request);
S3Signature signS3(const S3Request& request, const S3Credentials& credentials, kj::Date now);

}  // namespace talos::backupd
