// The confined process: one request from the brain on a socket, one answer, and the end.
//
// It has no right that it could lose (machined/confined/parser-client/foreign-bytes.h says why,
// confined-process.h how). Any failure that is not an answer ends it, which the brain notices.
#pragma once

namespace talos::parse {

// `connection` is the one to a web server, or a disk, if the request is of that kind. Returns the
// exit status.
int serve(int socket, int connection);

}  // namespace talos::parse
