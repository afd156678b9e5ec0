#include "common/tls/client-request.h"

#include <openssl/err.h>

#include "common/base/error.h"
#include "common/tls/openssl.h"

namespace talos::pki {
namespace {

// Returns true for the types of string that all parsers read alike: OpenSSL's and Go's writers use
// one of the two.
bool isPlain(int type) {
  return type == V_ASN1_UTF8STRING || type == V_ASN1_PRINTABLESTRING;
}

// Returns true if each is in a separate RDN, as plain text.
bool isOneOfEach(const X509_NAME* subject) {
  if (X509_NAME_entry_count(subject) != 2) return false;
  bool organization = false, name = false;
  for (int i = 0; i < 2; ++i) {
    auto* entry = X509_NAME_get_entry(subject, i);
    if (X509_NAME_ENTRY_set(entry) != i) return false;
    if (!isPlain(ASN1_STRING_type(X509_NAME_ENTRY_get_data(entry)))) return false;
    int nid = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
    organization = organization || nid == NID_organizationName;
    name = name || nid == NID_commonName;
  }
  return organization && name;
}

// Returns the only extension of a request in one attribute; nullptr if there are others, or none.
X509_EXTENSION* onlyExtension(X509_REQ* request, STACK_OF(X509_EXTENSION) * extensions) {
  if (X509_REQ_get_attr_count(request) != 1) return nullptr;
  auto* attribute = X509_REQ_get_attr(request, 0);
  if (OBJ_obj2nid(X509_ATTRIBUTE_get0_object(attribute)) != NID_ext_req) return nullptr;
  if (X509_ATTRIBUTE_count(attribute) != 1) return nullptr;
  if (sk_X509_EXTENSION_num(extensions) != 1) return nullptr;  // -1 without a list
  return sk_X509_EXTENSION_value(extensions, 0);
}

bool isServerName(const GENERAL_NAME* name) {
  return name->type == GEN_DNS || name->type == GEN_IPADD;
}

}  // namespace

void requireOneReading(kj::StringPtr requestPem) {
  KJ_DEFER(ERR_clear_error());
  auto request = readRequest(requestPem);
  if (!isOneOfEach(X509_REQ_get_subject_name(request.get()))) {
    fail(ErrorKind::kInvalidArgument,
         "the subject of the request is something else than one organization and one common name");
  }
  if (writeRequest(request.get()) != requestPem) {
    fail(ErrorKind::kInvalidArgument,
         "the text of the request is not as this system writes it, in one PEM block");
  }
}

void requireServerNames(kj::StringPtr requestPem) {
  KJ_DEFER(ERR_clear_error());
  auto request = readRequest(requestPem);
  auto* extensions = X509_REQ_get_extensions(request.get());
  KJ_DEFER(sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free));
  auto* only = onlyExtension(request.get(), extensions);
  if (only == nullptr || OBJ_obj2nid(X509_EXTENSION_get_object(only)) != NID_subject_alt_name) {
    fail(ErrorKind::kInvalidArgument,
         "the extensions of the request are something else than one list of alternative names");
  }
  Names names(static_cast<GENERAL_NAMES*>(X509V3_EXT_d2i(only)));
  if (names == nullptr) {
    fail(ErrorKind::kInvalidArgument, "the alternative names of the request cannot be read");
  }
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    if (isServerName(sk_GENERAL_NAME_value(names.get(), i))) continue;
    fail(ErrorKind::kInvalidArgument,
         "the alternative names of the request are not only DNS names and addresses");
  }
}

}  // namespace talos::pki
