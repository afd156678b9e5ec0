// The confined process: one request from the brain on a socket, one answer, and the end.
//
// It has no right that it could lose (machined/confined/parser-client/foreign-bytes.h has the
// reasons, confined-process.h the means). Any failure that is not an answer ends the process, and
// the brain notices this.
#pragma once

namespace talos::parse {

// Serves one request. `connection`: to a web server, or a disk, if the request needs one. Returns
// the exit status.
int serve(int socket, int connection);

}  // namespace talos::parse
