// Requests to a parsing process are filled here, and its answers checked and read. Pure.
//
// An answer is from a process that its input may have taken over. Whatever it is, each read…()
// returns a value that keeps what foreign-bytes.h promises (numbers in range, texts of bounded
// length and without control characters, places that HTTP can go to), or throws. Nothing refers to
// the message afterwards. A failure that the process reports is thrown as such.
#pragma once

#include "machined/confined/parser-client/foreign-bytes.h"
#include "rpc/parse.capnp.h"

namespace talos::machined {

void fillConfig(rpc::ParseRequest::Builder out, kj::ArrayPtr<const char> document,
                kj::StringPtr file, config::Mode mode);
void fillRedact(rpc::ParseRequest::Builder out, kj::ArrayPtr<const char> from,
                kj::ArrayPtr<const char> to);
void fillNtp(rpc::ParseRequest::Builder out, const NtpReply& reply);
void fillHttp(rpc::ParseRequest::Builder out, const HttpSource& place, kj::StringPtr authorities,
              kj::Date now);
void fillPieces(rpc::ParseRequest::Builder out, const HttpSource& place, kj::StringPtr authorities,
                kj::Date now, uint64_t from);
void fillGenerate(rpc::ParseRequest::Builder out, rpc::GenerateRequest::Reader request,
                  kj::Maybe<config::Config::Reader> own);
void fillPlace(rpc::HttpPlace::Builder out, const HttpSource& place);

// `document` is what was asked about.
CheckedConfig readConfig(rpc::ParseAnswer::Reader answer, kj::ArrayPtr<const char> document);
// `most`: of both texts.
RedactedConfigs readRedacted(rpc::ParseAnswer::Reader answer, size_t most);
kj::Vector<GeneratedFile> readGenerated(rpc::ParseAnswer::Reader answer);
// In the form that Ip has.
kj::Array<kj::String> readAddresses(rpc::ParseAnswer::Reader answer);
kj::Array<char> readText(rpc::ParseAnswer::Reader answer);
ForeignBytes::OnDevice readSuperblockAnswer(rpc::ParseAnswer::Reader answer);
FoundOnDisk readFoundOnDisk(rpc::ParseAnswer::Reader answer);
ntp::Verdict readVerdict(rpc::ParseAnswer::Reader answer);
// `from` is where it was asked: https does not lead to http.
HttpAnswer readHttp(rpc::ParseAnswer::Reader answer, const HttpSource& from);
void readProgress(rpc::ParseAnswer::Reader answer, HttpProgress& progress);
// The messages about a body before its end.
kj::Promise<void> takePiece(rpc::ParseAnswer::Reader answer, HttpProgress& progress,
                            HttpPieces& to);
// None: that was all of it.
kj::Maybe<HttpSource> readPiecesEnd(rpc::ParseAnswer::Reader answer, const HttpSource& from);
// Of an archive of `size` bytes: each of kImageFiles, and maybe kConfigKeysFile, inside of it.
kj::Vector<ImagePart> readArchive(rpc::ParseAnswer::Reader answer, uint64_t size);
kj::Vector<ImageSignature> readSignatures(rpc::ParseAnswer::Reader answer);
kj::String readSignedImage(rpc::ParseAnswer::Reader answer);  // sha256:<hex>
void fillFacts(rpc::ParseRequest::Builder out, kj::StringPtr platform,
               kj::ArrayPtr<const PlatformAnswer> answers);
KnownFacts readFacts(rpc::ParseAnswer::Reader answer);
// For facts from a file of this node, which may have lain there for years. InvalidArgument.
KnownFacts checkedFacts(rpc::PlatformFacts::Reader facts);
void fillUserData(rpc::ParseRequest::Builder out, platforms::Encoding encoding,
                  kj::ArrayPtr<const char> content);
kj::Maybe<kj::Array<char>> readUserData(rpc::ParseAnswer::Reader answer);
kj::String readReport(rpc::ParseAnswer::Reader answer);
kj::Array<kj::String> readCleared(rpc::ParseAnswer::Reader answer);

// True for sha256: and 64 hexadecimal digits, in lower case.
bool isSha256(kj::StringPtr digest);

// A place that can be connected to and asked for; its other texts follow from host, port and
// target.
HttpSource readPlace(rpc::HttpPlace::Reader place);

// The same with what is asked there; from the brain, which nobody has to check.
HttpSource readRequest(rpc::HttpPlace::Reader place);

// A field of foreign text of at most so many bytes (common/text/foreign-text.h).
kj::String oneLine(kj::StringPtr text, size_t most);

}  // namespace talos::machined
