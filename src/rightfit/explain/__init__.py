"""Terms and reasons in English and Chinese. This room words what lower rooms decided; it
computes no physics.

sheets.plan_sheet(plan, lang), sheets.verdict_sheet(verdict, lang)   a whole answer as parts that
    any face can draw: sentences, lists, tables
voices.plan_text(plan, lang), voices.option_text(option, workload, lang)   the sentences alone
documents.plan_document(plan, lang), documents.verdict_document(verdict, lang)   the contract's JSON
reasons.renderer(lang, currency=...)   Reason -> sentence, for plans of training;
                                       voices.voice_of(answer).renderer for any kind
"""
