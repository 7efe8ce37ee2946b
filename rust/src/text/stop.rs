//! Words that say little, in the form that the analyzer gives them. They are indexed, and left out of a query unless
//! nothing else is in it.

const ENGLISH: &str = "a about after all also am an and any are as at be because been before being but by can could did do \
does doing down during each few for from further had has have having he her here hers him his how i if in into is it its \
just me more most my no nor not now of off on once only or other our ours out over own same she should so some such than \
that the their theirs them then there these they this those through to too under until up very was we were what when where \
which while who whom why will with would you your yours";

const ITALIAN: &str = "a ad agli ai al alla alle allo anche avere c che chi ci coi col come con contro cui d da dagli dai dal \
dalla dalle dallo degli dei del dell della delle dello di dove e ed era fu gli ha hai hanno ho i il in io l la le lei li lo loro \
lui ma mi mia mie miei mio ne negli nei nel nella nelle nello noi non nostra nostro o per perche piu qual quale quando quanto \
quella quelle quelli quello questa queste questi questo s se sei si sia siamo sono sta su sua sue sugli sui sul sulla sulle \
sullo suo suoi tra fra tu tua tuo tutti tutto un una uno vi voi";

/// True for a stop word of the language; words stand folded and not stemmed.
pub(super) fn is_stop(language: &str, word: &str) -> bool {
    let list = match language {
        "english" => ENGLISH,
        "italian" => ITALIAN,
        _ => return false,
    };
    word.len() <= 10 && list.split(' ').any(|w| w == word)
}
