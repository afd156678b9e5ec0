// Fills requests to a parsing process, and checks and reads its answers. Pure.
//
// An answer is from a process that its input may have taken over. For any answer, each read…()
// either returns a value that keeps the promises of foreign-bytes.h (numbers in range, texts of
// bounded length and without control characters, places that HTTP can go to), or throws. No result
// refers to the message. A failure that the process reports is thrown as such.
#pragma once

#include "machined/confined/parser-client/foreign-bytes.h"
#include "rpc/parse.capnp.h"

namespace talos::machined {

void fillConfig(rpc::ParseRequest::Builder out, kj::ArrayPtr<const char> document,
                kj::StringPtr file, ConfigRules rules);
void fillRedact(rpc::ParseRequest::Builder out, kj::ArrayPtr<const char> from,
                kj::ArrayPtr<const char> to);
void fillNtp(rpc::ParseRequest::Builder out, const NtpReply& reply);
void fillHttp(rpc::ParseRequest::Builder out, const HttpSource& place, kj::StringPtr authorities,
              kj::Date now);
void fillPieces(rpc::ParseRequest::Builder out, const HttpSource& place, kj::StringPtr authorities,
                kj::Date now, uint64_t from);
void fillKms(rpc::ParseRequest::Builder out, const KmsCall& call);
void fillGenerate(rpc::ParseRequest::Builder out, rpc::GenerateRequest::Reader request,
                  kj::Maybe<config::Config::Reader> own);
void fillPlace(rpc::HttpPlace::Builder out, const HttpSource& place);

// `document`: the document in the request.
CheckedConfig readConfig(rpc::ParseAnswer::Reader answer, kj::ArrayPtr<const char> document);
// `most`: size limit of each text.
RedactedConfigs readRedacted(rpc::ParseAnswer::Reader answer, size_t most);
kj::Vector<GeneratedFile> readGenerated(rpc::ParseAnswer::Reader answer);
// Returns addresses in the form of Ip.
kj::Array<kj::String> readAddresses(rpc::ParseAnswer::Reader answer);
kj::Array<char> readText(rpc::ParseAnswer::Reader answer);
ForeignBytes::OnDevice readSuperblockAnswer(rpc::ParseAnswer::Reader answer);
FoundOnDisk readFoundOnDisk(rpc::ParseAnswer::Reader answer);
ntp::Verdict readVerdict(rpc::ParseAnswer::Reader answer);
// `from`: the place that the request went to; its https must not lead to http.
HttpAnswer readHttp(rpc::ParseAnswer::Reader answer, const HttpSource& from);
void readProgress(rpc::ParseAnswer::Reader answer, HttpProgress& progress);
// Takes a message about a body before its end.
kj::Promise<void> takePiece(rpc::ParseAnswer::Reader answer, HttpProgress& progress,
                            HttpPieces& to);
// `seals`: the answer is a sealed key, otherwise a key.
kj::Array<kj::byte> readKms(rpc::ParseAnswer::Reader answer, bool seals);
// Returns nullptr if all of the body has come.
kj::Maybe<HttpSource> readPiecesEnd(rpc::ParseAnswer::Reader answer, const HttpSource& from);
// Returns the parts of an archive of `size` bytes: each of kImageFiles, and maybe kConfigKeysFile,
// all inside of the archive.
kj::Vector<ImagePart> readArchive(rpc::ParseAnswer::Reader answer, uint64_t size);
kj::Vector<ImageSignature> readSignatures(rpc::ParseAnswer::Reader answer);
kj::String readSignedImage(rpc::ParseAnswer::Reader answer);  // sha256:<hex>
void fillFacts(rpc::ParseRequest::Builder out, kj::StringPtr platform,
               kj::ArrayPtr<const PlatformAnswer> answers);
KnownFacts readFacts(rpc::ParseAnswer::Reader answer);
// Checks facts from a file of this node, which may be years old. InvalidArgument.
KnownFacts checkedFacts(rpc::PlatformFacts::Reader facts);
void fillUserData(rpc::ParseRequest::Builder out, platforms::Encoding encoding,
                  kj::ArrayPtr<const char> content);
kj::Maybe<kj::Array<char>> readUserData(rpc::ParseAnswer::Reader answer);
kj::String readReport(rpc::ParseAnswer::Reader answer);
void fillContainerd(rpc::ParseRequest::Builder out, kj::ArrayPtr<const char> system,
                    kj::ArrayPtr<const kj::String> fragments);
kj::Array<kj::String> readCleared(rpc::ParseAnswer::Reader answer);
kj::Vector<ExtensionConfig> readExtensionConfigs(rpc::ParseAnswer::Reader answer);

// Returns true for sha256: and 64 hexadecimal digits, in lower case.
bool isSha256(kj::StringPtr digest);

// Reads a place to connect to; its other texts follow from host, port and target.
HttpSource readPlace(rpc::HttpPlace::Reader place);

// Reads a place with its request. The brain sends it, so it is not checked.
HttpSource readRequest(rpc::HttpPlace::Reader place);

// Returns a field of foreign text, cut to `most` bytes (common/text/foreign-text.h).
kj::String oneLine(kj::StringPtr text, size_t most);

}  // namespace talos::machined
